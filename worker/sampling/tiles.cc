#include "worker/sampling/tiles.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "comm/runtime/check.h"
#include "worker/sampling/exact_math.h"

namespace tandem::sampling {
namespace {

bool all_finite(std::span<const float> logits) {
  constexpr uint32_t kExponent = 0x7F800000;
  bool finite = true;
  for (float x : logits) finite &= (std::bit_cast<uint32_t>(x) & kExponent) != kExponent;
  return finite;
}

Candidate best_of(std::span<const float> logits, int32_t first_token) {
  const auto at = std::max_element(logits.begin(), logits.end());  // the first of equals
  return {*at, first_token + static_cast<int32_t>(at - logits.begin())};
}

std::vector<Candidate> top_of(std::span<const float> logits, int32_t first_token,
                              const Candidate* floor) {
  std::vector<Candidate> top;
  for (size_t i = 0; i < logits.size(); ++i) {
    const Candidate c{logits[i], first_token + static_cast<int32_t>(i)};
    if (floor == nullptr || better(c, *floor)) top.push_back(c);
  }
  if (top.size() > kTopPerTile) {
    std::nth_element(top.begin(), top.begin() + kTopPerTile, top.end(), better);
    top.resize(kTopPerTile);
  }
  std::sort(top.begin(), top.end(), better);
  return top;
}

}  // namespace

RowSummary summarize_tile(std::span<const float> logits, int32_t first_token,
                          const SummaryNeeds& needs, const Candidate* floor) {
  CHECK(!logits.empty() && logits.size() <= kTileIds);
  RowSummary out;
  out.finite = all_finite(logits);
  if (!out.finite) return out;  // the row fails; nothing else of it is looked at
  out.best = best_of(logits, first_token);
  if (needs.sum_exp) {
    out.sum_exp = sum_exact_exp(logits, out.best.logit, needs.temperature);
  }
  if (needs.top) out.top = top_of(logits, first_token, floor);
  return out;
}

RowSummary merge(RowSummary left, const RowSummary& right, const SummaryNeeds& needs) {
  left.finite = left.finite && right.finite;
  if (!left.finite) return left;
  if (needs.sum_exp) {
    const double max = std::max(left.best.logit, right.best.logit);
    left.sum_exp = left.sum_exp * exact_exp((left.best.logit - max) / needs.temperature) +
                   right.sum_exp * exact_exp((right.best.logit - max) / needs.temperature);
  }
  if (better(right.best, left.best)) left.best = right.best;
  if (needs.top && !right.top.empty()) {
    std::vector<Candidate> both(left.top.size() + right.top.size());
    std::merge(left.top.begin(), left.top.end(), right.top.begin(), right.top.end(), both.begin(),
               better);
    if (both.size() > kTopPerTile) both.resize(kTopPerTile);
    left.top = std::move(both);
  }
  return left;
}

RowSummary summarize_row(std::span<const float> logits, const SummaryNeeds& needs) {
  RowSummary row;
  for (size_t begin = 0; begin < logits.size(); begin += kTileIds) {
    const auto tile = logits.subspan(begin, std::min<size_t>(kTileIds, logits.size() - begin));
    const bool full = row.top.size() == kTopPerTile;
    RowSummary next = summarize_tile(tile, static_cast<int32_t>(begin), needs,
                                     full ? &row.top.back() : nullptr);
    row = begin == 0 ? std::move(next) : merge(std::move(row), next, needs);
    if (!row.finite) break;
  }
  return row;
}

}  // namespace tandem::sampling
