#include "bench/model/report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace tandem::bench {

std::string to_json(const ModelBenchOptions& options, const ModelBenchResult& result) {
  nlohmann::ordered_json out;
  out["model"] = options.model;
  out["ops"] = result.ops;
  out["kv_dtype"] = options.kv_dtype;
  out["threads"] = options.threads;
  out["prompt"] = options.prompt;
  out["generate"] = options.generate;
  out["chunk"] = options.chunk;
  out["repeat"] = options.repeat;
  out["prefill_tokens_per_s"] = result.prefill_tokens_per_s;
  out["decode_tokens_per_s"] = result.decode_tokens_per_s;
  out["load_s"] = result.load_s;
  out["weight_bytes_per_token"] = result.weight_bytes_per_token;
  out["prefill_flops_per_token"] = result.prefill_flops_per_token;
  out["memory_read_bytes_per_s"] = result.limits.read_bytes_per_s;
  out["fma_flops_per_s"] = result.limits.fma_flops_per_s;
  out["fma_vector_bits"] = result.limits.fma_vector_bits;
  out["decode_percent_of_bandwidth"] = result.decode_percent_of_bandwidth;
  out["prefill_percent_of_peak"] = result.prefill_percent_of_peak;
  out["numerics_class"] = result.numerics;
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string to_text(const ModelBenchOptions& options, const ModelBenchResult& result) {
  char text[1024];
  std::snprintf(
      text, sizeof text,
      "op set %s, %d thread%s, %s KV, loaded in %.2f s\n"
      "prefill %4d tokens  %9.1f tok/s  %5.1f %% of %.0f GFLOP/s (f32 FMA, %d bit)\n"
      "decode  %4d tokens  %9.1f tok/s  %5.1f %% of %.1f GB/s (memory reads; %.1f MB per token)\n",
      result.ops.c_str(), options.threads, options.threads == 1 ? "" : "s",
      options.kv_dtype.c_str(), result.load_s, options.prompt, result.prefill_tokens_per_s,
      result.prefill_percent_of_peak, result.limits.fma_flops_per_s / 1e9,
      result.limits.fma_vector_bits, options.generate, result.decode_tokens_per_s,
      result.decode_percent_of_bandwidth, result.limits.read_bytes_per_s / 1e9,
      static_cast<double>(result.weight_bytes_per_token) / 1e6);
  return text;
}

}  // namespace tandem::bench
