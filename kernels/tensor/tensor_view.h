#pragma once
// Non-owning views of activations: [rows, cols] with a row stride. A higher-rank activation is seen
// as its rows, e.g. [num_tokens, num_heads * head_dim].

#include <cstdint>

#include "kernels/tensor/check.h"
#include "kernels/tensor/dtype.h"

namespace tandem::tensor {

// Mutable view. Never owns; valid as long as the memory it was made from.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // elements between rows, >= cols

  static TensorView f32(float* data, int64_t rows, int64_t cols) {
    return {data, DType::kF32, rows, cols, cols};
  }
  // Requires: dtype is f32.
  float* f32_row(int64_t row) const {
    CHECK_KERNEL(dtype == DType::kF32);
    return static_cast<float*>(data) + row * stride;
  }
  // Columns [begin, end) of every row.
  TensorView columns(int64_t begin, int64_t end) const {
    CHECK_KERNEL(0 <= begin && begin <= end && end <= cols);
    char* start = static_cast<char*>(data) + dtype_bytes(dtype, begin);
    return {start, dtype, rows, end - begin, stride};
  }
  // Rows [begin, end).
  TensorView row_range(int64_t begin, int64_t end) const {
    CHECK_KERNEL(0 <= begin && begin <= end && end <= rows);
    char* start = static_cast<char*>(data) + dtype_bytes(dtype, begin * stride);
    return {start, dtype, end - begin, cols, stride};
  }
};

// Read-only view; every TensorView is one.
struct ConstTensorView {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  ConstTensorView() = default;
  ConstTensorView(const void* d, DType t, int64_t r, int64_t c, int64_t s)
      : data(d), dtype(t), rows(r), cols(c), stride(s) {}
  ConstTensorView(const TensorView& v)  // NOLINT: implicit on purpose
      : ConstTensorView(v.data, v.dtype, v.rows, v.cols, v.stride) {}

  static ConstTensorView f32(const float* data, int64_t rows, int64_t cols) {
    return {data, DType::kF32, rows, cols, cols};
  }
  // Requires: dtype is f32.
  const float* f32_row(int64_t row) const {
    CHECK_KERNEL(dtype == DType::kF32);
    return static_cast<const float*>(data) + row * stride;
  }
};

}  // namespace tandem::tensor
