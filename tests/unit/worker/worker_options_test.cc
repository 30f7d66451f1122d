#include "worker/worker_options.h"

#include <gmock/gmock.h>

#include "comm/runtime/result.h"
#include "configs/schema/loader.h"
#include "tests/support/tiny_model.h"

namespace tandem::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

config::Config config_of(const std::string& overrides_of_decode, const std::string& rest = "") {
  const std::string pools = "pools: {prefill: {}, decode: {" + overrides_of_decode + "}}\n";
  const auto config =
      config::parse_config("model: {path: /m.gguf}\n" + pools + rest, "c.yaml", {});
  if (!config) throw std::runtime_error(config.error().message);
  return *config;
}

std::string refusal(const config::Config& config, const spec::ModelSpec& spec) {
  try {
    (void)model_options(config, "decode-0", spec);
  } catch (const StartupError& error) {
    return error.what();
  }
  return "";
}

// 30 layers, 3 KV heads of 64: 23,040 bytes per token as bf16.
spec::ModelSpec smollm2_like() {
  spec::ModelSpec spec = support::tiny_spec();
  spec.num_layers = 30;
  spec.num_heads = 9;
  spec.num_kv_heads = 3;
  spec.head_dim = 64;
  spec.max_context = 8192;
  return spec;
}

TEST(WorkerOptions, KvMemoryIsCutIntoWholeBlocks) {
  const auto options = model_options(config_of("kv_memory: 64MiB"), "decode-0", smollm2_like());
  EXPECT_EQ(options.num_blocks, (64 << 20) / (32 * 23040));
  EXPECT_EQ(options.kv_dtype, tensor::DType::kBF16);
  EXPECT_EQ(options.max_context, 8192);
  const auto f32 = model_options(config_of("kv_memory: 64MiB", "kv: {dtype: f32}"), "decode-0",
                                 smollm2_like());
  EXPECT_EQ(f32.num_blocks, (64 << 20) / (32 * 2 * 23040));
}

TEST(WorkerOptions, TooLittleKvMemoryIsRefusedWithTheMinimum) {
  EXPECT_THAT(refusal(config_of("kv_memory: 1MiB"), smollm2_like()),
              HasSubstr("pools.decode.kv_memory: 1MiB holds 1 KV blocks of 737280 bytes; write at "
                        "least 5760KiB"));
  EXPECT_EQ(refusal(config_of("kv_memory: 5760KiB"), smollm2_like()), "");
  EXPECT_NE(refusal(config_of("kv_memory: 5759KiB"), smollm2_like()), "");
}

TEST(WorkerOptions, AShortContextNeedsLessKvMemory) {
  spec::ModelSpec spec = smollm2_like();
  spec.max_context = 32;
  EXPECT_EQ(refusal(config_of("kv_memory: 1MiB"), spec), "");
}

TEST(WorkerOptions, MoreContextThanTheModelHasIsRefused) {
  const config::Config config = config_of("instances: 1", "");
  config::Config longer = config;
  longer.model.max_context = 9000;
  EXPECT_THAT(refusal(longer, smollm2_like()), HasSubstr("model.max_context: 9000"));
  longer.model.max_context = 4096;
  EXPECT_EQ(model_options(longer, "decode-0", smollm2_like()).max_context, 4096);
}

TEST(WorkerOptions, AStepOfTheSchedulerFitsTheModel) {
  const config::Config config = config_of("max_sequences: 5, prefill_chunk: 3");
  const auto model = model_options(config, "decode-0", smollm2_like());
  const auto engine = engine_options(config, "decode-0", {});
  EXPECT_EQ(model.max_tokens, engine.scheduler.token_budget);
  EXPECT_GE(model.max_sequences,
            engine.scheduler.max_sequences + engine.scheduler.max_prefill_sequences);
  EXPECT_EQ(model.max_logit_rows, model.max_sequences);
  EXPECT_EQ(engine.role, config::Role::kDecode);
}

TEST(WorkerOptions, EosIsWhatTheModelFileNames) {
  support::TemporaryDirectory folder;
  support::GgufWriter writer =
      support::tiny_model_writer({.spec = support::tiny_spec(), .tokenizer_from = {}});
  support::write_file(folder.file("none.gguf"), writer.bytes());
  EXPECT_THAT(eos_ids(*format::GgufFile::open(folder.file("none.gguf"))), IsEmpty());
  writer.add_uint("tokenizer.ggml.eos_token_id", 7);
  support::write_file(folder.file("seven.gguf"), writer.bytes());
  EXPECT_THAT(eos_ids(*format::GgufFile::open(folder.file("seven.gguf"))), ElementsAre(7));
}

TEST(WorkerOptions, TestSwitchesReachTheLink) {
  const config::Config config = config_of(
      "instances: 1", "testing: {verify_blocks: false, flip_received_block: 3, slow_link: 1MiB}");
  wire::Descriptor descriptor;
  descriptor.mutable_kv()->set_block_bytes(4096);
  const auto link = link_options(config, "decode-0", descriptor, Incarnation{9});
  EXPECT_EQ(link.max_block_bytes, 4096u);
  EXPECT_FALSE(link.testing.verify_blocks);
  EXPECT_EQ(link.testing.flip_bit_in_part, 3u);
  EXPECT_EQ(link.testing.slow_link_bytes_per_s, 1u << 20);
}

}  // namespace
}  // namespace tandem::worker
