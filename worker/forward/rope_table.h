#pragma once
// Rotary position embedding: the cosines and sines of every (position, pair), made on the host.

#include <cstdint>
#include <string>
#include <vector>

#include "model/spec/model_spec.h"

namespace tandem::forward {

// angle(p, i) = p / factor * base^(-2i / head_dim), in double, its cosine and sine rounded to f32
// (Su et al., "RoFormer", 2021). Row-major [num_positions, head_dim / 2].
struct RopeTableData {
  std::vector<float> cos;
  std::vector<float> sin;
};

// Requires: num_positions >= 1.
RopeTableData make_rope_table(const spec::ModelSpec& spec, int64_t num_positions);

// 16 hexadecimal digits over the first 4,096 positions' bits (or all that spec.max_context allows,
// if fewer). The C library's cosine may differ by machine: then so does the numerics class.
// Independent of how many positions an instance is configured for.
std::string rope_table_hash(const spec::ModelSpec& spec);

}  // namespace tandem::forward
