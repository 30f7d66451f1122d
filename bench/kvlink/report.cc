#include "bench/kvlink/report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace tandem::bench {
namespace {

double percent_of_memcpy(const KvLinkBenchResult& result) {
  return result.memcpy_bytes_per_s > 0
             ? 100 * result.link_bytes_per_s / result.memcpy_bytes_per_s
             : 0;
}

}  // namespace

std::string to_json(const KvLinkBenchOptions& options, const KvLinkBenchResult& result) {
  const nlohmann::json object = {{"link", "tcp"},
                                 {"block_bytes", options.block_bytes},
                                 {"blocks", options.blocks},
                                 {"grants", options.grants},
                                 {"link_bytes_per_s", result.link_bytes_per_s},
                                 {"memcpy_bytes_per_s", result.memcpy_bytes_per_s},
                                 {"percent_of_memcpy", percent_of_memcpy(result)},
                                 {"first_part_s", result.first_part_s}};
  return object.dump();
}

std::string to_text(const KvLinkBenchOptions& options, const KvLinkBenchResult& result) {
  char line[300];
  std::snprintf(line, sizeof line,
                "tcp, %u grants x %u blocks of %zu bytes: %.2f GB/s (memcpy %.2f GB/s, %.0f %%); "
                "one block on an idle link: %.0f us\n",
                options.grants, options.blocks, options.block_bytes,
                result.link_bytes_per_s / 1e9, result.memcpy_bytes_per_s / 1e9,
                percent_of_memcpy(result), result.first_part_s * 1e6);
  return line;
}

}  // namespace tandem::bench
