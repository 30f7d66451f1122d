// Purpose: out = x · wᵀ with weights as the model file stores them.
// Algorithm: per output row, dequantise the row once, then one dot product per token and leaf.
// Numerics: f32; 16 interleaved partial sums per leaf, leaves added in the canonical tree.
#include <cstring>

#include "kernels/cpu/reference/kernels.h"
#include "kernels/tensor/quant.h"

namespace tandem::cpu::reference {

float dot(const float* a, const float* b, int64_t n) {
  constexpr int kLanes = 16;  // independent sums: the compiler may vectorise without reordering
  float lane[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lane[j] += a[i + j] * b[i + j];
  }
  for (int j = 0; i < n; ++i, ++j) lane[j] += a[i] * b[i];
  for (int width = kLanes / 2; width >= 1; width /= 2) {
    for (int j = 0; j < width; ++j) lane[j] += lane[j + width];
  }
  return lane[0];
}

int64_t packed_bytes(tensor::DType dtype, int64_t rows, int64_t cols) {
  return rows * tensor::dtype_bytes(dtype, cols);
}

void pack_panel(const PackTask& task, int64_t panel) {
  const int64_t row_bytes = tensor::dtype_bytes(task.dtype, task.cols);
  for (int64_t i = 0; i < kPanelRows; ++i) {
    const int64_t row = panel * kPanelRows + i;
    if (row >= task.rows) return;
    std::memcpy(task.packed + row * row_bytes, task.raw + row * task.raw_row_bytes,
                static_cast<size_t>(row_bytes));
  }
}

void unpack_row(const PackTask& task, int64_t row, float* out) {
  const int64_t row_bytes = tensor::dtype_bytes(task.dtype, task.cols);
  tensor::dequantize(task.dtype, task.packed + row * row_bytes, task.cols, out);
}

int64_t matmul_scratch_floats(int64_t cols) { return cols; }

void matmul_panel(const MatmulTask& task) {
  const int64_t row_bytes = tensor::dtype_bytes(task.dtype, task.cols);
  for (int64_t i = 0; i < kPanelRows; ++i) {
    const int64_t row = task.panel * kPanelRows + i;
    if (row >= task.rows) return;
    float* w = task.scratch;  // [cols]
    tensor::dequantize(task.dtype, task.packed + row * row_bytes, task.cols, w);
    for (int64_t t = 0; t < task.num_tokens; ++t) {
      const float* x = task.x + t * task.x_stride;
      float leaf[8];
      for (int l = 0; l < task.num_leaves; ++l) {
        const int64_t begin = task.k_begin[l];
        leaf[l] = dot(x + begin, w + begin, task.k_begin[l + 1] - begin);
      }
      float* out = task.out + t * task.out_stride + row;
      if (task.tree != nullptr) {
        for (int s = 0; s < task.tree->num_steps; ++s) {
          leaf[task.tree->left[s]] += leaf[task.tree->right[s]];
        }
        *out = leaf[0];
      } else {
        for (int l = 0; l < task.num_leaves; ++l) out[l * task.leaf_stride] = leaf[l];
      }
    }
  }
}

}  // namespace tandem::cpu::reference
