#pragma once
// Rows of logits for the sampling tests, and the slow, obvious way to filter and sample them.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "worker/sampling/counter_rng.h"
#include "worker/sampling/sampling_params.h"

namespace tandem::sampling::testing {

// Normal logits; with `grid` > 0 rounded to multiples of it, which makes many ties.
inline std::vector<float> random_row(uint32_t seed, size_t size, float spread, float grid = 0) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> row(size);
  for (float& x : row) {
    x = normal(rng);
    if (grid > 0) x = std::round(x / grid) * grid;
  }
  return row;
}

// Ids that survive temperature, top_k, top_p and min_p, best first: sort everything, then cut.
inline std::vector<int32_t> naive_survivors(std::span<const float> row, const SamplingParams& p) {
  std::vector<int32_t> ids(row.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
  });
  if (p.top_k > 0) ids.resize(std::min(ids.size(), static_cast<size_t>(p.top_k)));
  const double best = row[static_cast<size_t>(ids[0])];
  std::vector<double> weights;
  for (int32_t id : ids) {
    weights.push_back(std::exp((row[static_cast<size_t>(id)] - best) / p.temperature));
  }
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  size_t count = ids.size();
  if (p.top_p < 1.0F) {
    double sum = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      sum += weights[i];
      if (sum >= static_cast<double>(p.top_p) * total) {
        count = i + 1;
        break;
      }
    }
  }
  size_t kept = 1;
  while (kept < count && weights[kept] >= p.min_p) ++kept;
  ids.resize(kept);
  return ids;
}

// Noise for every survivor, no short cuts, the C library's logarithm.
inline int32_t naive_sample(std::span<const float> row, const SamplingParams& p,
                            const NoiseKey& key) {
  int32_t winner = -1;
  double best = 0;
  for (int32_t id : naive_survivors(row, p)) {
    const double u = (token_bits_of(key, static_cast<uint32_t>(id)) + 0.5) / 4294967296.0;
    const double score =
        static_cast<double>(row[static_cast<size_t>(id)]) / p.temperature - std::log(-std::log(u));
    if (winner < 0 || score > best || (score == best && id < winner)) {
      winner = id;
      best = score;
    }
  }
  return winner;
}

}  // namespace tandem::sampling::testing
