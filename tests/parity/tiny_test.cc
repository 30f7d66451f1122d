// The tiny llama in every tensor type against its goldens: logits of exactly dequantised weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

#include "tests/parity/rig/golden.h"
#include "tests/parity/rig/model_rig.h"

namespace tandem::parity {
namespace {

constexpr float kTolerance = 1e-3F;

class TinyParity : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  const std::string type_ = std::get<0>(GetParam());
  const std::string ops_ = std::get<1>(GetParam());

  RigOptions options(tensor::DType kv_dtype) const {
    return {.path = tiny_model_path(type_),
            .ops = ops_,
            .threads = 2,
            .model = {.num_blocks = 64,
                      .block_size = 16,
                      .kv_dtype = kv_dtype,
                      .max_tokens = 128,
                      .max_logit_rows = 128}};
  }
};

TEST_P(TinyParity, LogitsAndGreedyIdsWithF32Kv) {
  if (!can_run(ops_)) GTEST_SKIP() << "this machine has no " << ops_;
  ModelRig rig(options(tensor::DType::kF32));
  float worst = 0;
  for (const GoldenCase& golden : read_golden(tiny_golden_path(type_))) {
    SCOPED_TRACE(golden.name);
    rig.reset();
    const auto rows = teacher_forced_logits(rig, golden.ids, 0);
    ASSERT_EQ(rows.size(), golden.argmax.size());
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(argmax(rows[i]), golden.argmax[i]) << i;
    for (size_t i = 0; i < golden.logits.size(); ++i) {
      const float got = rows.back()[static_cast<size_t>(golden.logit_ids[i])];
      worst = std::max(worst, std::abs(got - golden.logits[i]));
    }
    rig.reset();
    const Transcript transcript =
        run_alone(rig,
                  {.prompt = golden.ids,
                   .num_generate = static_cast<int32_t>(golden.greedy_ids.size()),
                   .params = {.temperature = 0}},
                  16);
    for (size_t i = 0; i < transcript.size(); ++i) {
      EXPECT_EQ(transcript[i].token, golden.greedy_ids[i]) << i;
    }
  }
  EXPECT_LT(worst, kTolerance);
  RecordProperty("max_logit_error", std::to_string(worst));
  std::printf("max logit error %.2g\n", static_cast<double>(worst));
}

TEST_P(TinyParity, Bf16KvStaysClose) {
  if (!can_run(ops_)) GTEST_SKIP() << "this machine has no " << ops_;
  ModelRig rig(options(tensor::DType::kBF16));
  for (const GoldenCase& golden : read_golden(tiny_golden_path(type_))) {
    rig.reset();
    const auto rows = teacher_forced_logits(rig, golden.ids, 0);
    for (size_t i = 0; i < golden.logits.size(); ++i) {
      EXPECT_NEAR(rows.back()[static_cast<size_t>(golden.logit_ids[i])], golden.logits[i], 0.2F);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , TinyParity,
    ::testing::Combine(::testing::Values("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1"),
                       ::testing::Values("reference", "avx2")),
    [](const auto& p) { return std::get<0>(p.param) + "_" + std::get<1>(p.param); });

}  // namespace
}  // namespace tandem::parity
