// Same request, same tokens: the bits of a request's logits depend on nothing but the request.
// Every way to run it must give the transcript (tokens and digests of logits) it has alone.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <tuple>

#include "tests/parity/rig/golden.h"
#include "tests/parity/rig/model_rig.h"

namespace tandem::parity {
namespace {

constexpr int32_t kWholePrompt = 512;

// Requests of different lengths, greedy and seeded. Two share their first 64 tokens.
std::vector<Script> scripts(int32_t vocab, const std::vector<int32_t>& lengths) {
  std::mt19937 rng(20);
  std::vector<Script> out;
  for (size_t i = 0; i < lengths.size(); ++i) {
    Script script{.prompt = std::vector<int32_t>(static_cast<size_t>(lengths[i])),
                  .num_generate = 4,
                  .params = {.temperature = i % 2 == 0 ? 0.0F : 0.9F,
                             .top_k = i % 4 == 1 ? 40 : 0,
                             .top_p = i % 4 == 3 ? 0.95F : 1.0F,
                             .min_p = 0,
                             .seed = 1000 + i}};
    for (int32_t& id : script.prompt) {
      id = static_cast<int32_t>(rng() % static_cast<uint32_t>(vocab));
    }
    out.push_back(std::move(script));
  }
  return out;
}

// A model and the lengths of the prompts to run on it.
struct Subject {
  std::string path;
  std::vector<int32_t> lengths;
  int64_t max_context;
};

void expect_invariant(const Subject& subject, const std::string& ops, tensor::DType kv_dtype) {
  RigOptions options{.path = subject.path,
                     .ops = ops,
                     .threads = 1,
                     .model = {.num_blocks = 512,
                               .block_size = 16,
                               .kv_dtype = kv_dtype,
                               .max_tokens = 2048,
                               .max_context = subject.max_context}};
  ModelRig one(options);
  options.threads = 2;
  ModelRig two(options);
  const auto all = scripts(one.model().spec().vocab, subject.lengths);

  std::vector<Transcript> alone;
  for (const Script& script : all) {
    one.reset();
    alone.push_back(run_alone(one, script, kWholePrompt));
  }
  for (int32_t chunk : {16, 63, 512}) {
    SCOPED_TRACE("chunk " + std::to_string(chunk));
    one.reset();
    EXPECT_EQ(run_together(one, all, chunk), alone) << "one thread";
    two.reset();
    EXPECT_EQ(run_together(two, all, chunk), alone) << "two threads";
  }

  // Warm: the longest prompt again, its first blocks as another request left them.
  Script warm = all.back();
  const auto prompt_tokens = static_cast<int32_t>(warm.prompt.size());
  two.reset();
  const auto blocks = two.take_blocks(prompt_tokens);
  run_alone(two, {.prompt = warm.prompt, .num_generate = 1, .blocks = blocks}, 63);
  for (const int32_t num_cached : {16, (prompt_tokens - 1) / 16 * 16}) {
    warm.num_cached = num_cached;
    const auto fresh = two.take_blocks(prompt_tokens + warm.num_generate);
    warm.blocks.assign(blocks.begin(), blocks.begin() + num_cached / 16);
    warm.blocks.insert(warm.blocks.end(), fresh.begin() + num_cached / 16, fresh.end());
    EXPECT_EQ(run_alone(two, warm, kWholePrompt), alone.back()) << num_cached << " cached";
  }

  // The check can fail: another bit in one cached value changes the digests.
  two.model().block_bytes(blocks[0])[1] ^= std::byte{1};
  EXPECT_NE(run_alone(two, warm, kWholePrompt), alone.back());
}

using Param = std::tuple<std::string, tensor::DType>;
class Invariance : public ::testing::TestWithParam<Param> {
 protected:
  void SetUp() override {
    if (!can_run(std::get<0>(GetParam()))) GTEST_SKIP() << "not on this machine";
  }
  void expect_of(const Subject& subject) {
    expect_invariant(subject, std::get<0>(GetParam()), std::get<1>(GetParam()));
  }
};

TEST_P(Invariance, TinyModel) {
  expect_of({.path = tiny_model_path("Q4_1"), .lengths = {1, 2, 33, 64, 70, 130, 200},
             .max_context = 256});
}

TEST_P(Invariance, TinyModelWithPlainWeights) {
  expect_of({.path = tiny_model_path("BF16"), .lengths = {17, 100}, .max_context = 256});
}

TEST_P(Invariance, SmolLm2) {
  std::string why;
  const auto paths = find_smollm2(why);
  if (!paths) GTEST_SKIP() << why;
  const auto& [ops, kv_dtype] = GetParam();
  if (kv_dtype == tensor::DType::kF32 && !full_run()) GTEST_SKIP() << "only with TANDEM_FULL=1";
  Subject subject{.path = paths->model, .lengths = {1, 40, 130, 600}, .max_context = 1024};
  if (ops == "reference" && !full_run()) subject.lengths = {1, 70};
  expect_of(subject);
}

INSTANTIATE_TEST_SUITE_P(
    , Invariance,
    ::testing::Combine(::testing::Values("reference", "avx2"),
                       ::testing::Values(tensor::DType::kF32, tensor::DType::kBF16)),
    [](const auto& p) {
      return std::get<0>(p.param) + "_" + tensor::dtype_name(std::get<1>(p.param));
    });

}  // namespace
}  // namespace tandem::parity
