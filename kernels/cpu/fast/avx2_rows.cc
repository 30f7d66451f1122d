// Row-wise ops. Numerics: f32; sums in four interleaved vectors, then one fixed order. A tail is
// padded to a full vector, so an element's bits don't depend on where the row ends.
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/fast/kernels.h"

namespace tandem::cpu::fast {
namespace {

#include "kernels/cpu/fast/avx2_exp.inc"

// The first n < 8 floats, the rest zero.
inline __m256i tail_mask(int64_t n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
}

inline __m256 silu_product(__m256 gate, __m256 up) {
  const __m256 one = _mm256_set1_ps(1.0f);
  const __m256 negated = _mm256_xor_ps(gate, _mm256_set1_ps(-0.0f));
  return _mm256_mul_ps(_mm256_div_ps(gate, _mm256_add_ps(one, exp_ps(negated))), up);
}

}  // namespace

void rms_norm(const float* x, const float* weight, int64_t n, float eps, float* out) {
  __m256 acc[4];
  for (int v = 0; v < 4; ++v) acc[v] = _mm256_setzero_ps();
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const __m256 value = _mm256_loadu_ps(x + i + 8 * v);
      acc[v] = _mm256_fmadd_ps(value, value, acc[v]);
    }
  }
  for (; i < n; i += 8) {
    const __m256 value =
        n - i >= 8 ? _mm256_loadu_ps(x + i) : _mm256_maskload_ps(x + i, tail_mask(n - i));
    acc[0] = _mm256_fmadd_ps(value, value, acc[0]);
  }
  const float sum =
      sum_lanes(_mm256_add_ps(_mm256_add_ps(acc[0], acc[1]), _mm256_add_ps(acc[2], acc[3])));
  const __m128 root = _mm_sqrt_ss(_mm_set_ss(sum / static_cast<float>(n) + eps));
  const __m256 inverse = _mm256_set1_ps(1.0f / _mm_cvtss_f32(root));
  for (i = 0; i + 8 <= n; i += 8) {
    const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x + i), inverse);
    _mm256_storeu_ps(out + i, _mm256_mul_ps(scaled, _mm256_loadu_ps(weight + i)));
  }
  for (; i < n; ++i) out[i] = x[i] * _mm256_cvtss_f32(inverse) * weight[i];
}

void silu_mul(const float* gate, const float* up, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(out + i, silu_product(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i)));
  }
  if (i < n) {
    const __m256i mask = tail_mask(n - i);
    const __m256 value =
        silu_product(_mm256_maskload_ps(gate + i, mask), _mm256_maskload_ps(up + i, mask));
    _mm256_maskstore_ps(out + i, mask, value);
  }
}

}  // namespace tandem::cpu::fast
