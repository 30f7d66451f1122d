#include <immintrin.h>

#include "bench/limits/loops.h"

namespace tandem::bench {

static constexpr int kLanes = 8;
static constexpr int kChains = 12;  // latency 4 or 5, two per cycle: at least 10

float fma_loop_avx2(int64_t rounds) {
  __m256 sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 a = _mm256_set1_ps(0.999F);
  const __m256 b = _mm256_set1_ps(0.001F);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = _mm256_fmadd_ps(sum[i], a, b);
  }
  for (int i = 1; i < kChains; ++i) sum[0] = _mm256_add_ps(sum[0], sum[i]);
  return _mm256_cvtss_f32(sum[0]);
}

int64_t fma_loop_avx2_flops(int64_t rounds) { return rounds * kChains * kLanes * 2; }

int64_t read_loop_avx2(const void* data, int64_t size_bytes) {
  constexpr int kStreams = 4;
  constexpr int64_t kStep = 512;
  __m256i sum[kStreams] = {};
  const char* p = static_cast<const char*>(data);
  for (const char* end = p + size_bytes; p < end; p += kStep) {
    _mm_prefetch(p + 4096, _MM_HINT_T0);
    for (int i = 0; i < 16; ++i) {
      const __m256i x = _mm256_load_si256(reinterpret_cast<const __m256i*>(p) + i);
      sum[i % kStreams] = _mm256_xor_si256(sum[i % kStreams], x);
    }
  }
  for (int i = 1; i < kStreams; ++i) sum[0] = _mm256_xor_si256(sum[0], sum[i]);
  return _mm256_extract_epi64(sum[0], 0);
}

}  // namespace tandem::bench
