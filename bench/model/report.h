#pragma once
// How a result is printed.

#include <string>

#include "bench/model/model_bench.h"

namespace tandem::bench {

// One JSON object, one line. Rates per second, sizes in bytes, shares in per cent.
std::string to_json(const ModelBenchOptions& options, const ModelBenchResult& result);
// A few lines for people.
std::string to_text(const ModelBenchOptions& options, const ModelBenchResult& result);

}  // namespace tandem::bench
