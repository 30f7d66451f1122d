#pragma once
// Ops whose plain form is fast enough on every instruction set: the same bits in all op sets.

#include <cstdint>

namespace tandem::cpu {

// out[i] = x[i] + y[i]; out may be x or y.
void add_row(const float* x, const float* y, int64_t n, float* out);

// Rotates pairs (2i, 2i + 1) of every head by the angle whose cosine and sine are given.
// x: [num_heads, head_dim], in place; cos, sin: [num_pairs], 2 * num_pairs <= head_dim.
void rope_row(float* x, int64_t num_heads, int64_t head_dim, const float* cos, const float* sin,
              int64_t num_pairs);

// Stores n values as bf16 (round to nearest even) or f32.
void store_kv_row(const float* in, int64_t n, bool as_bf16, void* out);

}  // namespace tandem::cpu
