#pragma once
// Static batching, as a yardstick only: up to max_sequences sequences start together, all prompts
// are computed before the first decode, and nobody joins until the last one has left.

#include "worker/scheduler/view.h"

namespace tandem::scheduler {

Plan plan_static(const View& view, const Config& config);

}  // namespace tandem::scheduler
