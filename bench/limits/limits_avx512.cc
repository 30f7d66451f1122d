#include <immintrin.h>

#include "bench/limits/loops.h"

namespace tandem::bench {

static constexpr int kLanes = 16;
static constexpr int kChains = 12;

float fma_loop_avx512(int64_t rounds) {
  __m512 sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 a = _mm512_set1_ps(0.999F);
  const __m512 b = _mm512_set1_ps(0.001F);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = _mm512_fmadd_ps(sum[i], a, b);
  }
  for (int i = 1; i < kChains; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  return _mm512_cvtss_f32(sum[0]);
}

int64_t fma_loop_avx512_flops(int64_t rounds) { return rounds * kChains * kLanes * 2; }

}  // namespace tandem::bench
