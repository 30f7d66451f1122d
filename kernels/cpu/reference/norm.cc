#include <cmath>

#include "kernels/cpu/reference/kernels.h"

namespace tandem::cpu::reference {

// RMSNorm (Zhang & Sennrich 2019). The mean of squares is summed in double.
void rms_norm(const float* x, const float* weight, int64_t n, float eps, float* out) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  const float inverse =
      static_cast<float>(1 / std::sqrt(sum / static_cast<double>(n) + static_cast<double>(eps)));
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * inverse * weight[i];
}

// SwiGLU's product (Shazeer 2020).
void silu_mul(const float* gate, const float* up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = gate[i] / (1 + exp_f32(-gate[i])) * up[i];
}

}  // namespace tandem::cpu::reference
