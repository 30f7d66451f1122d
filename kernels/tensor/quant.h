#pragma once
// GGUF's quantised block formats and the 16-bit floats: layouts and exact conversions.
// Source: the GGUF/ggml type definitions (block_q8_0, block_q4_0, block_q4_1).

#include <cstdint>

#include "kernels/tensor/dtype.h"

namespace tandem::tensor {

inline constexpr int64_t kQuantBlock = 32;  // elements per quantised block

// value[i] = scale * code[i]
struct BlockQ8_0 {
  uint16_t scale;  // fp16
  int8_t code[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

// value[i] = scale * (nibble[i] - 8); element i < 16 is the low nibble of code[i], element i + 16
// the high one.
struct BlockQ4_0 {
  uint16_t scale;  // fp16
  uint8_t code[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

// value[i] = scale * nibble[i] + minimum; nibbles as in Q4_0.
struct BlockQ4_1 {
  uint16_t scale;    // fp16
  uint16_t minimum;  // fp16
  uint8_t code[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

// Exact; every fp16 value (subnormals, infinities, NaN included) is an f32 value.
float f32_from_f16(uint16_t bits);
// Rounds to nearest even; overflows to infinity; NaN stays NaN.
uint16_t f16_from_f32(float value);
// Exact.
float f32_from_bf16(uint16_t bits);
// Rounds to nearest even; NaN stays NaN (quiet).
uint16_t bf16_from_f32(float value);

// Writes the values of `elements` stored elements. scale * code is exact in f32, so every value is
// rounded at most once (in Q4_1's addition).
// in:  raw GGUF data, any alignment; out: f32 [elements].
// Requires: elements is a whole number of blocks.
void dequantize(DType dtype, const void* in, int64_t elements, float* out);

// Inverse for tests and generated weights: rounds f32 to the stored type. Quantised types take the
// scale that maps the block's extreme value to the extreme code.
void quantize(DType dtype, const float* in, int64_t elements, void* out);

}  // namespace tandem::tensor
