#pragma once
// The vocabulary in fixed tiles of 4,096 ids. A tile is summed up by (max, sum of exp, best 256);
// summaries merge in tile order, so neither threads nor ranks can change a result.

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::sampling {

inline constexpr int32_t kTileIds = 4096;
inline constexpr int32_t kTopPerTile = 256;

struct Candidate {
  float logit = 0;
  int32_t token = 0;
};

// The order of candidates everywhere: higher logit first, then lower id.
inline bool better(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

struct RowSummary {
  bool finite = true;          // every logit is a number and not infinite
  Candidate best;              // ties to the lowest id
  double sum_exp = 0;          // sum of e^((logit - best.logit) / temperature)
  std::vector<Candidate> top;  // best kTopPerTile (or all, if fewer), sorted by better()
};

struct SummaryNeeds {
  bool sum_exp = false;
  bool top = false;
  double temperature = 1.0;  // of sum_exp
};

// Sums up one tile. `top` leaves out candidates worse than `floor`, if given: what is already
// beaten by kTopPerTile others can't come back. Requires: 1 to kTileIds logits.
RowSummary summarize_tile(std::span<const float> logits, int32_t first_token,
                          const SummaryNeeds& needs, const Candidate* floor);

// Summary of the tiles of `left` followed by those of `right`.
RowSummary merge(RowSummary left, const RowSummary& right, const SummaryNeeds& needs);

// Tiles of a whole row, merged in order. logits: [vocab_size]. Requires: vocab_size >= 1.
RowSummary summarize_row(std::span<const float> logits, const SummaryNeeds& needs);

}  // namespace tandem::sampling
