#pragma once
// `tandem-bench kernels`: rates of single ops, as shares of what the machine can do.

#include <cstdint>
#include <string>
#include <vector>

#include "bench/limits/limits.h"

namespace tandem::bench {

struct KernelBenchOptions {
  int32_t threads = 1;
  int32_t repeat = 5;        // the median counts
  std::string ops = "auto";  // auto | reference | avx2 | avx512
};

// One measured op.
struct KernelRow {
  std::string name;   // "matmul q4_1 2048x2048 n=64"
  double time_s = 0;  // of one call
  double flops = 0;   // operations of one call
  double bytes = 0;   // read from memory by one call, at least: weights or KV
  double worst_error = 0;  // against the reference, relative to the largest output
  double flops_per_s() const { return flops / time_s; }
  double bytes_per_s() const { return bytes / time_s; }
};

struct KernelBenchResult {
  std::string ops;
  std::vector<KernelRow> rows;
  MachineLimits limits;
};

// Verifies every case against the reference before timing it; weights rotate through more memory
// than the caches hold. Throws std::runtime_error if a result is wrong, or the op set can't run.
KernelBenchResult run_kernel_bench(const KernelBenchOptions& options);

}  // namespace tandem::bench
