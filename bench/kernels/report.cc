#include "bench/kernels/report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace tandem::bench {
namespace {

double share(double rate, double limit) { return limit > 0 ? 100 * rate / limit : 0; }

}  // namespace

std::string to_json(const KernelBenchOptions& options, const KernelBenchResult& result) {
  nlohmann::json rows = nlohmann::json::array();
  for (const KernelRow& row : result.rows) {
    rows.push_back({{"name", row.name},
                    {"time_s", row.time_s},
                    {"flops_per_s", row.flops_per_s()},
                    {"percent_of_peak", share(row.flops_per_s(), result.limits.fma_flops_per_s)},
                    {"bytes_per_s", row.bytes_per_s()},
                    {"percent_of_bandwidth",
                     share(row.bytes_per_s(), result.limits.read_bytes_per_s)},
                    {"worst_error", row.worst_error}});
  }
  const nlohmann::json object = {{"ops", result.ops},
                                 {"threads", options.threads},
                                 {"read_bytes_per_s", result.limits.read_bytes_per_s},
                                 {"fma_flops_per_s", result.limits.fma_flops_per_s},
                                 {"fma_vector_bits", result.limits.fma_vector_bits},
                                 {"rows", rows}};
  return object.dump();
}

std::string to_text(const KernelBenchOptions& options, const KernelBenchResult& result) {
  char line[200];
  std::snprintf(line, sizeof line,
                "op set %s, %d thread%s; limits: %.0f GFLOP/s (f32 FMA, %d bit), %.1f GB/s\n",
                result.ops.c_str(), options.threads, options.threads == 1 ? "" : "s",
                result.limits.fma_flops_per_s / 1e9, result.limits.fma_vector_bits,
                result.limits.read_bytes_per_s / 1e9);
  std::string text = line;
  std::snprintf(line, sizeof line, "%-40s %10s %9s %7s %7s %7s\n", "", "us", "GFLOP/s", "% peak",
                "GB/s", "% read");
  text += line;
  for (const KernelRow& row : result.rows) {
    std::snprintf(line, sizeof line, "%-40s %10.1f %9.1f %7.1f %7.2f %7.1f\n", row.name.c_str(),
                  row.time_s * 1e6, row.flops_per_s() / 1e9,
                  share(row.flops_per_s(), result.limits.fma_flops_per_s),
                  row.bytes_per_s() / 1e9,
                  share(row.bytes_per_s(), result.limits.read_bytes_per_s));
    text += line;
  }
  return text;
}

}  // namespace tandem::bench
