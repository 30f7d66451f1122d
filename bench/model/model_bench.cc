#include "bench/model/model_bench.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "comm/collective/factory/make_communicator.h"
#include "comm/runtime/result.h"
#include "kernels/backends/cpu_backend.h"
#include "kernels/tensor/device_error.h"
#include "model/format/gguf_file.h"
#include "model/spec/formulas.h"
#include "model/spec/model_spec.h"
#include "worker/forward/model.h"

namespace tandem::bench {
namespace {

constexpr int32_t kBlockSize = 32;

double seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <typename T>
T value_of(Result<T> result, const char* fix) {
  if (!result) throw StartupError(result.error().message + "; " + fix);
  return std::move(result).value();
}

std::unique_ptr<ops::Backend> make_backend(const ModelBenchOptions& options) {
  try {
    return backends::make_cpu_backend(options.ops, options.threads);
  } catch (const tensor::UnsupportedError& error) {
    throw StartupError(std::string("--ops: ") + error.what());
  }
}

// One sequence in blocks 0, 1, 2, …; every run overwrites what the last one left.
class Sequence {
 public:
  Sequence(forward::Model& model, int32_t max_tokens) : model_(model) {
    for (int32_t i = 0; i * kBlockSize < max_tokens; ++i) {
      blocks_.push_back(static_cast<uint32_t>(i));
    }
  }

  // Returns the sampled token; greedy.
  int32_t step(std::span<const int32_t> tokens, int32_t start, bool sample) {
    const forward::StepOutput out = model_.run({{.tokens = tokens,
                                                 .start_position = start,
                                                 .block_table = blocks_,
                                                 .sample = sample,
                                                 .params = {.temperature = 0}}});
    if (!out.entries[0].finite || !out.entries[0].sample.finite) {
      throw StartupError("the model computes values that are not finite numbers");
    }
    return out.entries[0].sample.token;
  }

  void prefill(const std::vector<int32_t>& prompt, int32_t chunk) {
    const auto size = static_cast<int32_t>(prompt.size());
    for (int32_t at = 0; at < size; at += chunk) {
      const int32_t count = std::min(chunk, size - at);
      step(std::span(prompt).subspan(static_cast<size_t>(at), static_cast<size_t>(count)), at,
           at + count == size);
    }
  }

  void decode(int32_t count) {
    int32_t token = 0;
    for (int32_t i = 0; i < count; ++i) token = step(std::span(&token, 1), i, true);
  }

 private:
  forward::Model& model_;
  std::vector<uint32_t> blocks_;
};

// All tokens but the last need no head.
double prefill_flops(const spec::ModelSpec& spec, int32_t prompt) {
  double flops = 0;
  for (int32_t i = 0; i < prompt; ++i) {
    flops += static_cast<double>(spec::flops_per_token(spec, static_cast<uint64_t>(i) + 1));
  }
  return flops - (prompt - 1) * static_cast<double>(spec::head_flops_per_token(spec));
}

forward::ModelOptions model_options(const ModelBenchOptions& options,
                                    const spec::ModelSpec& spec) {
  const int32_t longest = std::max({options.prompt, options.generate, options.chunk});
  if (longest > spec.max_context) {
    throw StartupError("--prompt, --generate or --chunk " + std::to_string(longest) +
                       " is more than the model's context of " +
                       std::to_string(spec.max_context) + " tokens");
  }
  return {.num_blocks = (longest + kBlockSize - 1) / kBlockSize,
          .block_size = kBlockSize,
          .kv_dtype = options.kv_dtype == "f32" ? tensor::DType::kF32 : tensor::DType::kBF16,
          .max_tokens = options.chunk,
          .max_sequences = 1};
}

std::vector<int32_t> make_prompt(const spec::ModelSpec& spec, int32_t length) {
  std::vector<int32_t> prompt;
  constexpr int32_t kStride = 7919;  // a prime: ids spread over the vocabulary
  for (int32_t i = 0; i < length; ++i) prompt.push_back((i + 1) * kStride % spec.vocab);
  return prompt;
}

}  // namespace

ModelBenchResult run_model_bench(const ModelBenchOptions& options) {
  const auto file = value_of(format::GgufFile::open(options.model), "pass a GGUF file to --model");
  const auto spec = value_of(spec::read_spec(file), "pass another file to --model");
  const auto backend = make_backend(options);
  const auto comm = value_of(collective::make_communicator(1, *backend), "use one rank");
  std::unique_ptr<forward::Model> model;
  ModelBenchResult result;
  result.load_s = seconds([&] {
    model = value_of(forward::Model::load(file, spec, {*backend, *comm},
                                          model_options(options, spec)),
                     "pass another file to --model");
  });
  result.ops = backend->name();
  result.numerics = model->numerics().hash;
  result.limits = measure_limits(options.threads);

  Sequence sequence(*model, std::max(options.prompt, options.generate));
  const std::vector<int32_t> prompt = make_prompt(spec, options.prompt);
  sequence.prefill({prompt.begin(), prompt.begin() + std::min(options.prompt, 16)}, 16);  // warm
  std::vector<double> prefill_s, decode_s;
  for (int32_t i = 0; i < options.repeat; ++i) {
    prefill_s.push_back(seconds([&] { sequence.prefill(prompt, options.chunk); }));
    decode_s.push_back(seconds([&] { sequence.decode(options.generate); }));
  }
  result.prefill_tokens_per_s = options.prompt / median(prefill_s);
  result.decode_tokens_per_s = options.generate / median(decode_s);
  result.weight_bytes_per_token = model->streamed_bytes();
  result.prefill_flops_per_token = prefill_flops(spec, options.prompt) / options.prompt;
  result.decode_percent_of_bandwidth = 100.0 * result.decode_tokens_per_s *
                                       static_cast<double>(result.weight_bytes_per_token) /
                                       result.limits.read_bytes_per_s;
  if (result.limits.fma_flops_per_s > 0) {
    result.prefill_percent_of_peak = 100.0 * result.prefill_tokens_per_s *
                                     result.prefill_flops_per_token /
                                     result.limits.fma_flops_per_s;
  }
  return result;
}

}  // namespace tandem::bench
