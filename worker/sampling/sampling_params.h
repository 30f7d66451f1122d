#pragma once
// What a request asks of the sampler.

#include <cstdint>

#include "comm/runtime/result.h"

namespace tandem::sampling {

struct SamplingParams {
  float temperature = 1.0F;  // >= 0; at or below kGreedyTemperature the best token is taken
  int32_t top_k = 0;         // keep the k best; 0 = all
  float top_p = 1.0F;        // (0, 1]: keep the best until their probability reaches top_p
  float min_p = 0.0F;        // [0, 1]: keep what has at least min_p times the best's probability
  uint64_t seed = 0;
};

inline constexpr float kGreedyTemperature = 1e-4F;

// kInvalidArgument naming the field when a value is out of range or not a number.
Status validate(const SamplingParams& params);

}  // namespace tandem::sampling
