#pragma once
// How a result is printed.

#include <string>

#include "bench/kvlink/kvlink_bench.h"

namespace tandem::bench {

// One JSON object, one line.
std::string to_json(const KvLinkBenchOptions& options, const KvLinkBenchResult& result);
std::string to_text(const KvLinkBenchOptions& options, const KvLinkBenchResult& result);

}  // namespace tandem::bench
