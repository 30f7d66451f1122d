#include "worker/sampling/filters.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <optional>

#include "comm/runtime/check.h"
#include "worker/sampling/exact_math.h"

namespace tandem::sampling {
namespace {

constexpr int kDigitBits = 11;
constexpr size_t kDigits = size_t{1} << kDigitBits;

// 0 = off; a k that keeps everything is off.
size_t effective_top_k(const SamplingParams& params, size_t vocab_size) {
  const bool off = params.top_k <= 0 || static_cast<size_t>(params.top_k) >= vocab_size;
  return off ? 0 : static_cast<size_t>(params.top_k);
}

// Unnormalised probability relative to the best candidate.
double weight(const Candidate& c, const Candidate& best, double temperature) {
  return exact_exp((static_cast<double>(c.logit) - best.logit) / temperature);
}

// Smaller for a better logit: the bits of -x, made to compare as unsigned integers. -0 equals 0.
uint32_t sort_key(float x) {
  constexpr uint32_t kSign = 0x80000000;
  const uint32_t bits = std::bit_cast<uint32_t>(x + 0.0F);
  return (bits & kSign) != 0 ? bits : ~(bits | kSign);
}

// The `count` best of the row, sorted: a stable radix sort by key keeps equal logits in id order
// and is several times faster than comparing on rows of a whole vocabulary.
std::span<const Candidate> sort_row(std::span<const float> logits, size_t count,
                                    SortScratch& scratch) {
  auto& [from, to] = scratch;
  from.resize(logits.size());
  to.resize(logits.size());
  for (size_t i = 0; i < from.size(); ++i) from[i] = {logits[i], static_cast<int32_t>(i)};
  for (int shift = 0; shift < 32; shift += kDigitBits) {
    const auto digit = [shift](const Candidate& c) {
      return (sort_key(c.logit) >> shift) & (kDigits - 1);
    };
    std::array<uint32_t, kDigits> next{};  // first the counts, then where each digit goes on
    for (const Candidate& c : from) ++next[digit(c)];
    std::exclusive_scan(next.begin(), next.end(), next.begin(), 0U);
    for (const Candidate& c : from) to[next[digit(c)]++] = c;
    from.swap(to);
  }
  return std::span(from).first(std::min(count, from.size()));
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
                 const SamplingParams& params, SortScratch& scratch) {
  CHECK(summary.finite);
  const double temperature = params.temperature;
  const size_t top_k = effective_top_k(params, logits.size());
  const bool top_p = params.top_p < 1.0F;
  if (top_k == 0 && !top_p) {
    if (params.min_p <= 0.0F) return {.floor = std::numeric_limits<float>::lowest()};
    return {.floor = min_p_floor(logits, summary.best, params)};
  }
  const size_t limit = top_k > 0 ? top_k : logits.size();
  std::span<const Candidate> sorted = summary.top;
  if (top_k > sorted.size()) sorted = sort_row(logits, limit, scratch);
  sorted = sorted.first(std::min(sorted.size(), limit));
  const double total = top_k > 0 ? total_weight(sorted, temperature) : summary.sum_exp;
  std::optional<size_t> count = cut(sorted, limit, total, params);
  if (!count) {
    sorted = sort_row(logits, limit, scratch);
    count = cut(sorted, limit, total, params);
  }
  return {.sorted = sorted.first(*count), .floor = 0};
}

}  // namespace tandem::sampling
