#include "kernels/cpu/elementwise.h"

#include <cstring>

#include "kernels/tensor/quant.h"

namespace tandem::cpu {

void add_row(const float* x, const float* y, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + y[i];
}

void rope_row(float* x, int64_t num_heads, int64_t head_dim, const float* cos, const float* sin,
              int64_t num_pairs) {
  for (int64_t head = 0; head < num_heads; ++head) {
    float* pair = x + head * head_dim;
    for (int64_t i = 0; i < num_pairs; ++i, pair += 2) {
      const float a = pair[0];
      const float b = pair[1];
      pair[0] = a * cos[i] - b * sin[i];
      pair[1] = a * sin[i] + b * cos[i];
    }
  }
}

void store_kv_row(const float* in, int64_t n, bool as_bf16, void* out) {
  if (!as_bf16) {
    std::memcpy(out, in, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  uint16_t* halves = static_cast<uint16_t*>(out);
  for (int64_t i = 0; i < n; ++i) halves[i] = tensor::bf16_from_f32(in[i]);
}

}  // namespace tandem::cpu
