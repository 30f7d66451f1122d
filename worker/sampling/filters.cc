#include "worker/sampling/filters.h"

#include <algorithm>
#include <optional>

#include "comm/runtime/check.h"
#include "worker/sampling/exact_math.h"

namespace tandem::sampling {
namespace {

// 0 = off; a k that keeps everything is off.
size_t effective_top_k(const SamplingParams& params, size_t vocab_size) {
  const bool off = params.top_k <= 0 || static_cast<size_t>(params.top_k) >= vocab_size;
  return off ? 0 : static_cast<size_t>(params.top_k);
}

// Unnormalised probability relative to the best candidate.
double weight(const Candidate& c, const Candidate& best, double temperature) {
  return exact_exp((static_cast<double>(c.logit) - best.logit) / temperature);
}

// The `count` best of the row, sorted.
std::vector<Candidate> sort_row(std::span<const float> logits, size_t count) {
  std::vector<Candidate> all(logits.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = {logits[i], static_cast<int32_t>(i)};
  if (count < all.size()) {
    std::nth_element(all.begin(), all.begin() + static_cast<ptrdiff_t>(count), all.end(), better);
    all.resize(count);
  }
  std::sort(all.begin(), all.end(), better);
  return all;
}

// Number of survivors among `sorted`, a prefix of the sorted row that ends at `limit` candidates
// if it is complete. Nothing if the prefix is too short to tell.
std::optional<size_t> cut(std::span<const Candidate> sorted, size_t limit, double total,
                          const SamplingParams& params) {
  const double temperature = params.temperature;
  const double goal = static_cast<double>(params.top_p) * total;
  double sum = 0;
  for (size_t i = 0; i < std::min(sorted.size(), limit); ++i) {
    const double w = weight(sorted[i], sorted[0], temperature);
    if (i > 0 && w < params.min_p) return i;
    sum += w;
    if (params.top_p < 1.0F && sum >= goal) return i + 1;
  }
  if (sorted.size() >= limit) return limit;
  return std::nullopt;
}

double total_weight(std::span<const Candidate> sorted, double temperature) {
  double total = 0;
  for (const Candidate& c : sorted) total += weight(c, sorted[0], temperature);
  return total;
}

// The lowest logit that min_p lets through (a bound from below, then exact).
float min_p_floor(std::span<const float> logits, const Candidate& best,
                  const SamplingParams& params) {
  const double temperature = params.temperature;
  float floor = best.logit;
  // w >= min_p exactly when the logit is at least the smallest one that passes: weights don't
  // decrease with the logit. Only logits below the current floor can lower it.
  const double bound = best.logit + temperature * (exact_log(params.min_p) - 1e-6);
  for (float x : logits) {
    if (x >= floor || x < bound) continue;
    if (weight({x, 0}, best, temperature) >= params.min_p) floor = x;
  }
  return floor;
}

}  // namespace

SummaryNeeds summary_needs(const SamplingParams& params, int32_t vocab_size) {
  const size_t top_k = effective_top_k(params, static_cast<size_t>(vocab_size));
  const bool top_p = params.top_p < 1.0F;
  return {.sum_exp = top_p && top_k == 0,
          .top = top_p || (top_k > 0 && top_k <= kTopPerTile),
          .temperature = params.temperature};
}

Survivors filter(std::span<const float> logits, const RowSummary& summary,
                 const SamplingParams& params) {
  CHECK(summary.finite);
  const double temperature = params.temperature;
  const size_t top_k = effective_top_k(params, logits.size());
  const bool top_p = params.top_p < 1.0F;
  if (top_k == 0 && !top_p) {
    if (params.min_p <= 0.0F) return {.sorted = {}, .floor = -3.4028235e38F};
    return {.sorted = {}, .floor = min_p_floor(logits, summary.best, params)};
  }
  const size_t limit = top_k > 0 ? top_k : logits.size();
  Survivors out;
  out.sorted = limit <= summary.top.size() || top_k == 0 ? summary.top : sort_row(logits, limit);
  if (out.sorted.size() > limit) out.sorted.resize(limit);
  const double total = top_k > 0 ? total_weight(out.sorted, temperature) : summary.sum_exp;
  std::optional<size_t> count = cut(out.sorted, limit, total, params);
  if (!count) {
    out.sorted = sort_row(logits, limit);
    count = cut(out.sorted, limit, total, params);
  }
  out.sorted.resize(*count);
  return out;
}

}  // namespace tandem::sampling
