#pragma once
// Iteration-level continuous batching with chunked prefill.
//
//   plan:  [d d d d | chunk of the oldest prompt | chunk of the next, while budget is left]
//
// Decodes: every one, up to max_sequences rows; beyond that, who waited longest.
// Prefill: oldest first, under token_budget - decodes, but never under less than one chunk: so
// prompts progress under any number of decodes, and a plan holds at most
// max(token_budget, decodes + prefill_chunk) positions: that bounds the gap between two tokens.
// Free row and decode waiting => it runs. Free prefill slot, budget left and prompt waiting => it
// runs.

#include "worker/scheduler/view.h"

namespace tandem::scheduler {

Plan plan_continuous(const View& view, const Config& config);

}  // namespace tandem::scheduler
