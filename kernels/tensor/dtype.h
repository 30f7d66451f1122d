#pragma once
// Element types of stored tensors. Quantised types come in blocks of 32 elements along the
// contiguous dimension, exactly as GGUF stores them.

#include <cstdint>

namespace tandem::tensor {

enum class DType : uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_1 };

inline constexpr int kNumDTypes = 6;

// "f32", "f16", "bf16", "q8_0", "q4_0", "q4_1".
const char* dtype_name(DType dtype);

// Elements per block: 1 for plain types, 32 for quantised ones.
int64_t dtype_block_elements(DType dtype);

// Bytes per block: 4, 2, 2, 34, 18, 20.
int64_t dtype_block_bytes(DType dtype);

// Bytes of `elements` contiguous elements. Requires: a whole number of blocks.
int64_t dtype_bytes(DType dtype, int64_t elements);

}  // namespace tandem::tensor
