// tandem-bench: measurements that need the engine. Exit status: 0, or 2 for bad input.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "bench/kernels/kernel_bench.h"
#include "bench/kernels/report.h"
#include "bench/kvlink/kvlink_bench.h"
#include "bench/kvlink/report.h"
#include "bench/model/model_bench.h"
#include "bench/model/report.h"

namespace {

constexpr int kBadInput = 2;

using tandem::bench::KernelBenchOptions;
using tandem::bench::KvLinkBenchOptions;
using tandem::bench::ModelBenchOptions;

void add_model_flags(CLI::App& app, ModelBenchOptions& options, bool& json) {
  app.add_option("--model", options.model, "GGUF file")->required()->check(CLI::ExistingFile);
  app.add_option("--prompt", options.prompt, "prompt tokens to prefill")
      ->check(CLI::Range(1, 1 << 20))->capture_default_str();
  app.add_option("--generate", options.generate, "tokens to decode from an empty context")
      ->check(CLI::Range(1, 1 << 20))->capture_default_str();
  app.add_option("--threads", options.threads, "threads of the op set")
      ->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--chunk", options.chunk, "prompt tokens per step")
      ->check(CLI::Range(1, 1 << 16))->capture_default_str();
  app.add_option("--repeat", options.repeat, "repetitions; the median counts")
      ->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--ops", options.ops, "op set")
      ->check(CLI::IsMember({"auto", "reference", "avx2", "avx512"}))->capture_default_str();
  app.add_option("--kv-dtype", options.kv_dtype, "type of stored K and V")
      ->check(CLI::IsMember({"bf16", "f32"}))->capture_default_str();
  app.add_flag("--json", json, "print one JSON object");
}

void add_kernel_flags(CLI::App& app, KernelBenchOptions& options, bool& json) {
  app.add_option("--threads", options.threads, "threads of the op set")
      ->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--repeat", options.repeat, "repetitions; the median counts")
      ->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--ops", options.ops, "op set")
      ->check(CLI::IsMember({"auto", "reference", "avx2", "avx512"}))->capture_default_str();
  app.add_flag("--json", json, "print one JSON object");
}

void add_kvlink_flags(CLI::App& app, KvLinkBenchOptions& options, bool& json) {
  app.add_option("--block-bytes", options.block_bytes, "bytes of one block")
      ->check(CLI::Range(8, 256 << 20))->capture_default_str();
  app.add_option("--blocks", options.blocks, "blocks of each grant")
      ->check(CLI::Range(1, 1 << 16))->capture_default_str();
  app.add_option("--grants", options.grants, "grants pushed at once")
      ->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--repeat", options.repeat, "repetitions; the median counts")
      ->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_flag("--json", json, "print one JSON object");
}

std::string run_model(const ModelBenchOptions& options, bool json) {
  const auto result = tandem::bench::run_model_bench(options);
  return json ? to_json(options, result) + "\n" : to_text(options, result);
}

std::string run_kernels(const KernelBenchOptions& options, bool json) {
  const auto result = tandem::bench::run_kernel_bench(options);
  return json ? to_json(options, result) + "\n" : to_text(options, result);
}

std::string run_kvlink(const KvLinkBenchOptions& options, bool json) {
  const auto result = tandem::bench::run_kvlink_bench(options);
  return json ? to_json(options, result) + "\n" : to_text(options, result);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures Tandem's parts on this machine, beside the machine's own limits.",
               "tandem-bench");
  app.require_subcommand(1);
  ModelBenchOptions options;
  bool json = false;
  CLI::App* model = app.add_subcommand("model", "prefill and decode rates of one model");
  add_model_flags(*model, options, json);
  KernelBenchOptions kernel_options;
  CLI::App* kernels = app.add_subcommand("kernels", "rates of single ops");
  add_kernel_flags(*kernels, kernel_options, json);
  KvLinkBenchOptions kvlink_options;
  CLI::App* kvlink = app.add_subcommand("kvlink", "transfer rate of KV blocks over TCP");
  add_kvlink_flags(*kvlink, kvlink_options, json);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kBadInput;
  }
  try {
    const std::string text = kernels->parsed()  ? run_kernels(kernel_options, json)
                             : kvlink->parsed() ? run_kvlink(kvlink_options, json)
                                                : run_model(options, json);
    std::fputs(text.c_str(), stdout);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tandem-bench: %s\n", error.what());
    return kBadInput;
  }
  return 0;
}
