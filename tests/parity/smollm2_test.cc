// SmolLM2-135M-Instruct against goldens of another implementation (its file holds 64 greedy tokens
// per prompt). Greedy ids are compared teacher-forced: every step is given the golden ids so far.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "tests/parity/rig/golden.h"
#include "tests/parity/rig/model_rig.h"

namespace tandem::parity {
namespace {

constexpr float kReferenceTolerance = 5e-4F;
// bf16 KV moves logits by up to 0.29: only clearer decisions can be expected to stay.
constexpr float kClearGap = 0.3F;
constexpr size_t kShortPrompt = 129;

struct Difference {
  float max_logit_error = 0;
  int num_steps = 0;
  int num_compared = 0;
  int num_wrong = 0;
};

class SmolLm2Parity : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    const auto paths = find_smollm2(why);
    if (!paths) GTEST_SKIP() << why;
    paths_ = *paths;
  }

  RigOptions options(const std::string& ops, tensor::DType kv_dtype) const {
    return {.path = paths_.model,
            .ops = ops,
            .threads = 2,
            .model = {.num_blocks = 80,
                      .block_size = 32,
                      .kv_dtype = kv_dtype,
                      .max_tokens = 256,
                      .max_logit_rows = 64,
                      .max_context = 2048}};
  }

  // Prompts of every run, or also the long ones.
  std::vector<GoldenCase> cases() const {
    std::vector<GoldenCase> all = read_golden(paths_.golden);
    if (!full_run()) {
      std::erase_if(all, [](const GoldenCase& c) { return c.ids.size() > kShortPrompt; });
    }
    return all;
  }

  // Logits after the prompt, and all greedy steps whose gap is above min_gap.
  Difference compare(ModelRig& rig, const GoldenCase& golden, float min_gap) {
    rig.reset();
    std::vector<int32_t> tokens = golden.ids;
    tokens.insert(tokens.end(), golden.greedy_ids.begin(), golden.greedy_ids.end() - 1);
    const auto rows =
        teacher_forced_logits(rig, tokens, static_cast<int32_t>(golden.ids.size()) - 1);
    Difference d;
    for (size_t i = 0; i < golden.logits.size(); ++i) {
      const float got = rows[0][static_cast<size_t>(golden.logit_ids[i])];
      d.max_logit_error = std::max(d.max_logit_error, std::abs(got - golden.logits[i]));
    }
    for (size_t i = 0; i < golden.greedy_ids.size(); ++i) {
      ++d.num_steps;
      if (golden.greedy_gaps[i] <= min_gap) continue;
      ++d.num_compared;
      if (argmax(rows[i]) != golden.greedy_ids[i]) ++d.num_wrong;
    }
    std::printf("%-14s max logit error %.2g, %d of %d greedy steps compared\n",
                golden.name.c_str(), static_cast<double>(d.max_logit_error), d.num_compared,
                d.num_steps);
    return d;
  }

  SmolLm2Paths paths_;
};

TEST_F(SmolLm2Parity, ReferenceWithF32Kv) {
  ModelRig rig(options("reference", tensor::DType::kF32));
  for (const GoldenCase& golden : cases()) {
    SCOPED_TRACE(golden.name);
    const Difference d = compare(rig, golden, 0.0F);
    EXPECT_LT(d.max_logit_error, kReferenceTolerance);
    EXPECT_EQ(d.num_wrong, 0);
  }
}

TEST_F(SmolLm2Parity, EveryPromptPosition) {
  const bool fast = can_run("avx2");
  ModelRig rig(options(fast ? "avx2" : "reference", tensor::DType::kF32));
  int num_positions = 0;
  for (const GoldenCase& golden : cases()) {
    if (golden.argmax.empty()) continue;
    rig.reset();
    const auto rows = teacher_forced_logits(rig, golden.ids, 0);
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(argmax(rows[i]), golden.argmax[i]) << i;
    num_positions += static_cast<int>(rows.size());
  }
  EXPECT_GT(num_positions, 0);
}

TEST_F(SmolLm2Parity, Avx2WithF32Kv) {
  if (!can_run("avx2")) GTEST_SKIP() << "this machine has no avx2";
  ModelRig rig(options("avx2", tensor::DType::kF32));
  for (const GoldenCase& golden : cases()) {
    SCOPED_TRACE(golden.name);
    const Difference d = compare(rig, golden, 0.0F);
    EXPECT_LT(d.max_logit_error, 1e-3F);
    EXPECT_EQ(d.num_wrong, 0);
  }
}

TEST_F(SmolLm2Parity, Avx2WithBf16Kv) {
  if (!can_run("avx2")) GTEST_SKIP() << "this machine has no avx2";
  ModelRig rig(options("avx2", tensor::DType::kBF16));
  for (const GoldenCase& golden : cases()) {
    SCOPED_TRACE(golden.name);
    const Difference d = compare(rig, golden, kClearGap);
    EXPECT_LT(d.max_logit_error, 0.4F);
    EXPECT_EQ(d.num_wrong, 0);
    EXPECT_GT(d.num_compared, 0);
  }
}

}  // namespace
}  // namespace tandem::parity
