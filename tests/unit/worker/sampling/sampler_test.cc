#include "worker/sampling/sampler.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cmath>
#include <limits>

#include "rows.h"

namespace tandem::sampling {
namespace {

using testing::naive_sample;
using testing::naive_survivors;
using testing::random_row;

SampleResult sample(std::span<const float> row, const SampleRequest& request) {
  SortScratch scratch;
  return sample_row(row, request, scratch);
}

TEST(Sampler, BoundedRaceEqualsNoiseForEveryCandidate) {
  uint32_t seed = 0;
  SortScratch scratch;
  for (size_t size : {1UL, 7UL, 300UL, 5000UL}) {
    for (float spread : {0.01F, 1.0F, 8.0F}) {
      for (const SamplingParams& params :
           {SamplingParams{}, SamplingParams{.temperature = 0.2F},
            SamplingParams{.temperature = 3.0F}, SamplingParams{.top_k = 40},
            SamplingParams{.top_p = 0.9F}, SamplingParams{.min_p = 0.1F},
            SamplingParams{.temperature = 2.0F, .top_k = 600, .top_p = 0.99F, .min_p = 0.001F}}) {
        const auto row = random_row(++seed, size, spread);
        for (uint32_t position = 0; position < 4; ++position) {
          const NoiseKey key{.seed = seed * 0x9E3779B97F4A7C15ULL, .choice = 1,
                             .position = position};
          EXPECT_EQ(sample_token(row, params, key, scratch), naive_sample(row, params, key))
              << "seed " << seed << " size " << size;
        }
      }
    }
  }
}

// Chi-square of 40,000 draws against the exact distribution over the survivors.
void expect_distribution(std::span<const float> row, const SamplingParams& params) {
  constexpr int kDraws = 40000;
  SortScratch scratch;
  const auto ids = naive_survivors(row, params);
  std::vector<double> p(row.size(), 0.0);
  double total = 0;
  for (int32_t id : ids) {
    const size_t i = static_cast<size_t>(id);
    p[i] = std::exp(row[i] / params.temperature);
    total += p[i];
  }
  std::vector<int> seen(row.size(), 0);
  for (uint32_t i = 0; i < kDraws; ++i) {
    const int32_t token = sample_token(row, params, {42, 0, i}, scratch);
    ++seen[static_cast<size_t>(token)];
  }
  double chi_square = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    if (p[i] == 0) {
      EXPECT_EQ(seen[i], 0) << i;
      continue;
    }
    const double expected = kDraws * p[i] / total;
    chi_square += (seen[i] - expected) * (seen[i] - expected) / expected;
  }
  const double freedom = static_cast<double>(ids.size()) - 1;
  EXPECT_LT(chi_square, freedom + 5 * std::sqrt(2 * freedom));  // 5 standard deviations
}

TEST(Sampler, DrawsFromTheSoftmax) {
  const auto row = random_row(11, 16, 1.0F);
  expect_distribution(row, {});
  expect_distribution(row, {.temperature = 0.5F});
  expect_distribution(row, {.temperature = 2.0F});
  expect_distribution(row, {.top_k = 5});
  expect_distribution(row, {.top_p = 0.8F});
  expect_distribution(row, {.min_p = 0.2F});
}

TEST(Sampler, ColdIsGreedyAndTiesGoToTheLowestId) {
  const std::vector<float> row{1.0F, 3.0F, -0.0F, 3.0F};
  for (float t : {0.0F, 1e-5F, 1e-4F}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const SampleRequest request{.params = {.temperature = t, .seed = seed}};
      EXPECT_EQ(sample(row, request).token, 1);
    }
  }
  const std::vector<float> zeros{-1.0F, -0.0F, 0.0F};
  EXPECT_EQ(sample(zeros, {.params = {.temperature = 0}}).token, 1);  // -0 equals 0
}

TEST(Sampler, ChoicesAndPositionsDrawApart) {
  const std::vector<float> row(1000, 0.0F);
  const int32_t token = sample(row, {.choice = 0, .position = 5}).token;
  EXPECT_EQ(sample(row, {.choice = 0, .position = 5}).token, token);
  EXPECT_NE(sample(row, {.choice = 1, .position = 5}).token, token);
  EXPECT_NE(sample(row, {.choice = 0, .position = 6}).token, token);
}

TEST(Sampler, NotANumberFailsTheRowOnly) {
  auto row = random_row(1, 5000, 1.0F);
  row[4500] = std::numeric_limits<float>::quiet_NaN();
  const SampleResult result = sample(row, {.num_logprobs = 3, .digest = true});
  EXPECT_FALSE(result.finite);
  EXPECT_EQ(result.token, -1);
  EXPECT_TRUE(result.top_logprobs.empty());
  EXPECT_EQ(result.logits_digest, XXH3_64bits(row.data(), row.size() * sizeof(float)));
}

TEST(Sampler, LogprobsAreOfTheRawLogits) {
  const auto row = random_row(8, 6000, 2.0F);
  double sum = 0;
  for (float x : row) sum += std::exp(static_cast<double>(x));
  const SampleRequest request{.params = {.temperature = 0.3F, .top_k = 7}, .num_logprobs = 5};
  const SampleResult result = sample(row, request);
  EXPECT_NEAR(result.logprob, row[static_cast<size_t>(result.token)] - std::log(sum), 1e-5);
  const auto best = naive_survivors(row, {.top_k = 5});
  ASSERT_EQ(result.top_logprobs.size(), 5U);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(result.top_logprobs[i].token, best[i]);
    const double logprob = row[static_cast<size_t>(best[i])] - std::log(sum);
    EXPECT_NEAR(result.top_logprobs[i].logprob, logprob, 1e-5);
  }
  EXPECT_TRUE(sample(row, {.num_logprobs = 0}).top_logprobs.empty());
}

TEST(Sampler, DigestSeesEveryBit) {
  auto row = random_row(9, 512, 1.0F);
  const uint64_t digest = sample(row, {.digest = true}).logits_digest;
  EXPECT_EQ(sample(row, {.digest = true}).logits_digest, digest);
  row[511] = std::nextafter(row[511], 100.0F);
  EXPECT_NE(sample(row, {.digest = true}).logits_digest, digest);
}

}  // namespace
}  // namespace tandem::sampling
