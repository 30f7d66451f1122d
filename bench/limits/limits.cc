#include "bench/limits/limits.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "bench/limits/loops.h"

namespace tandem::bench {
namespace {

constexpr int kTries = 5;
constexpr int64_t kReadBytes = int64_t{256} << 20;
constexpr int64_t kFmaRounds = 4'000'000;

// Seconds until all threads have done work(thread).
double timed(int32_t threads, const std::function<void(int32_t)>& work) {
  const auto begin = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> helpers;
    for (int32_t t = 1; t < threads; ++t) helpers.emplace_back(work, t);
    work(0);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Bytes summed by plain code, for CPUs without AVX2.
int64_t read_loop_plain(const void* data, int64_t size_bytes) {
  uint64_t sum = 0;
  const auto* words = static_cast<const uint64_t*>(data);
  for (int64_t i = 0; i < size_bytes / 8; ++i) sum ^= words[i];
  return static_cast<int64_t>(sum);
}

double measure_read(int32_t threads, bool avx2) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const std::unique_ptr<void, void (*)(void*)> memory(std::aligned_alloc(kHugePage, kReadBytes),
                                                      std::free);
  madvise(memory.get(), kReadBytes, MADV_HUGEPAGE);  // as the weights are, where possible
  std::memset(memory.get(), 1, kReadBytes);
  const int64_t share = kReadBytes / threads / 4096 * 4096;
  std::vector<int64_t> kept(static_cast<size_t>(threads));
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const double seconds = timed(threads, [&](int32_t t) {
      const char* begin = static_cast<const char*>(memory.get()) + t * share;
      kept[static_cast<size_t>(t)] +=
          avx2 ? read_loop_avx2(begin, share) : read_loop_plain(begin, share);
    });
    best = std::max(best, static_cast<double>(share * threads) / seconds);
  }
  volatile int64_t sink = kept[0];  // the sums are used
  static_cast<void>(sink);
  return best;
}

double measure_fma(int32_t threads, float (*loop)(int64_t), int64_t (*flops)(int64_t)) {
  std::vector<float> kept(static_cast<size_t>(threads));
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const double seconds =
        timed(threads, [&](int32_t t) { kept[static_cast<size_t>(t)] = loop(kFmaRounds); });
    best = std::max(best, static_cast<double>(flops(kFmaRounds) * threads) / seconds);
  }
  volatile float sink = kept[0];
  static_cast<void>(sink);
  return best;
}

}  // namespace

MachineLimits measure_limits(int32_t threads) {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f");
  MachineLimits limits;
  limits.read_bytes_per_s = measure_read(threads, avx2);
  if (avx512) {
    limits.fma_flops_per_s = measure_fma(threads, fma_loop_avx512, fma_loop_avx512_flops);
    limits.fma_vector_bits = 512;
  } else if (avx2) {
    limits.fma_flops_per_s = measure_fma(threads, fma_loop_avx2, fma_loop_avx2_flops);
    limits.fma_vector_bits = 256;
  }
  return limits;
}

}  // namespace tandem::bench
