#pragma once
// `tandem-bench model`: prefill and decode rates of one model on one rank, without a server.

#include <cstdint>
#include <string>

#include "bench/limits/limits.h"

namespace tandem::bench {

struct ModelBenchOptions {
  std::string model;           // GGUF file
  int32_t prompt = 512;        // tokens prefilled
  int32_t generate = 64;       // tokens decoded, from an empty context
  int32_t threads = 1;
  int32_t chunk = 512;         // prompt tokens per step
  int32_t repeat = 5;          // the median counts
  std::string ops = "auto";    // auto | reference | avx2 | avx512
  std::string kv_dtype = "bf16";
};

struct ModelBenchResult {
  std::string ops;
  std::string numerics;                  // hash of the numerics class
  double load_s = 0;
  double prefill_tokens_per_s = 0;
  double decode_tokens_per_s = 0;
  int64_t weight_bytes_per_token = 0;    // packed weights that one decode step reads
  double prefill_flops_per_token = 0;    // mean over the prompt
  double decode_percent_of_bandwidth = 0;
  double prefill_percent_of_peak = 0;    // 0 when the peak is unknown
  MachineLimits limits;
};

// Throws StartupError for a model or options that can't be used.
ModelBenchResult run_model_bench(const ModelBenchOptions& options);

}  // namespace tandem::bench
