#pragma once
// What this machine could do: measured beside every result, because figures are only comparable as
// shares of it.

#include <cstdint>

namespace tandem::bench {

struct MachineLimits {
  double read_bytes_per_s = 0;    // reading memory beyond every cache
  double fma_flops_per_s = 0;     // f32 multiply-add, 2 operations each, widest vectors present
  int32_t fma_vector_bits = 0;    // 512 or 256; 0 = no FMA: flops are 0
};

// With `threads` threads at once; the best of a few tries. Takes about a second and 256 MiB.
MachineLimits measure_limits(int32_t threads);

}  // namespace tandem::bench
