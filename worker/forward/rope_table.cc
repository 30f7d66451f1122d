#include "worker/forward/rope_table.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "comm/runtime/check.h"

namespace tandem::forward {

RopeTableData make_rope_table(const spec::ModelSpec& spec, int64_t num_positions) {
  CHECK_GE(num_positions, 1);
  const int64_t pairs = spec.head_dim / 2;
  std::vector<double> frequency(static_cast<size_t>(pairs));
  for (int64_t i = 0; i < pairs; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / spec.head_dim;
    frequency[static_cast<size_t>(i)] = std::pow(spec.rope.base, exponent) / spec.rope.factor;
  }
  RopeTableData table;
  table.cos.reserve(static_cast<size_t>(num_positions * pairs));
  table.sin.reserve(table.cos.capacity());
  for (int64_t position = 0; position < num_positions; ++position) {
    for (double f : frequency) {
      const double angle = static_cast<double>(position) * f;
      table.cos.push_back(static_cast<float>(std::cos(angle)));
      table.sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return table;
}

std::string rope_table_hash(const spec::ModelSpec& spec) {
  constexpr int64_t kHashedPositions = 4096;
  const RopeTableData table =
      make_rope_table(spec, std::min<int64_t>(spec.max_context, kHashedPositions));
  const uint64_t cos = XXH3_64bits(table.cos.data(), table.cos.size() * sizeof(float));
  const uint64_t both =
      XXH3_64bits_withSeed(table.sin.data(), table.sin.size() * sizeof(float), cos);
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(both));
  return text;
}

}  // namespace tandem::forward
