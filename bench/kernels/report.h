#pragma once
// How a result is printed.

#include <string>

#include "bench/kernels/kernel_bench.h"

namespace tandem::bench {

// One JSON object, one line. Rates per second, shares in per cent.
std::string to_json(const KernelBenchOptions& options, const KernelBenchResult& result);
// A table for people.
std::string to_text(const KernelBenchOptions& options, const KernelBenchResult& result);

}  // namespace tandem::bench
