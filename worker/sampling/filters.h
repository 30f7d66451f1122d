#pragma once
// top_k, top_p and min_p: which candidates survive, in the contract's order (temperature, top_k,
// top_p over what top_k left, min_p). At least the best one always survives.

#include <span>
#include <vector>

#include "worker/sampling/sampling_params.h"
#include "worker/sampling/tiles.h"

namespace tandem::sampling {

// Memory for sorting a row, kept from call to call: fresh pages would cost more than the sort.
struct SortScratch {
  std::vector<Candidate> from;
  std::vector<Candidate> to;
};

struct Survivors {
  // All survivors, best first; empty when every id with logit >= floor survives (no filter that
  // needs an order is on): then nobody has to sort the row. Lies in the summary or the scratch.
  std::span<const Candidate> sorted{};
  float floor = 0;
};

// What filter() wants of the row's summary.
SummaryNeeds summary_needs(const SamplingParams& params, int32_t vocab_size);

// logits: [vocab_size], all finite; summary: of this row with summary_needs().
// A filter that the summary's best 256 don't close looks at the whole row: the result is the same
// for every length of that list.
Survivors filter(std::span<const float> logits, const RowSummary& summary,
                 const SamplingParams& params, SortScratch& scratch);

}  // namespace tandem::sampling
