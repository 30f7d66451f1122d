#include "worker/sampling/filters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "rows.h"

namespace tandem::sampling {
namespace {

using testing::naive_survivors;
using testing::random_row;

std::set<int32_t> survivors(std::span<const float> row, const SamplingParams& params) {
  const auto needs = summary_needs(params, static_cast<int32_t>(row.size()));
  SortScratch scratch;
  const RowSummary summary = summarize_row(row, needs);
  const Survivors out = filter(row, summary, params, scratch);
  std::set<int32_t> ids;
  for (const Candidate& c : out.sorted) ids.insert(c.token);
  if (out.sorted.empty()) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (row[i] >= out.floor) ids.insert(static_cast<int32_t>(i));
    }
  }
  return ids;
}

void expect_naive(std::span<const float> row, const SamplingParams& params) {
  const auto ids = naive_survivors(row, params);
  EXPECT_EQ(survivors(row, params), std::set<int32_t>(ids.begin(), ids.end()))
      << "T " << params.temperature << " k " << params.top_k << " p " << params.top_p << " min_p "
      << params.min_p << " size " << row.size();
}

TEST(Filters, EqualTheNaiveOnes) {
  uint32_t seed = 0;
  for (size_t size : {1UL, 2UL, 100UL, 256UL, 257UL, 1000UL, 5000UL}) {
    for (float spread : {0.1F, 1.0F, 5.0F}) {
      for (float grid : {0.0F, 0.25F}) {
        const auto row = random_row(++seed, size, spread, grid);
        for (int32_t k : {0, 1, 40, 256, 257, 700, 100000}) {
          for (float p : {1.0F, 0.95F, 0.3F, 0.001F}) {
            for (float min_p : {0.0F, 0.05F, 1.0F}) {
              expect_naive(row, {.temperature = 0.8F, .top_k = k, .top_p = p, .min_p = min_p});
            }
          }
        }
      }
    }
  }
}

TEST(Filters, RealVocabularySize) {
  const auto row = random_row(99, 49152, 2.0F);
  expect_naive(row, {.temperature = 1.0F, .top_p = 0.9F});
  expect_naive(row, {.temperature = 0.3F, .top_k = 50, .top_p = 0.9F, .min_p = 0.02F});
  expect_naive(row, {.temperature = 1.5F, .min_p = 0.02F});
}

TEST(Filters, FlatRowNeedsMoreThanTheBest256) {
  const std::vector<float> row(1000, 3.5F);
  EXPECT_EQ(survivors(row, {.top_p = 0.5F}).size(), 500U);
  EXPECT_EQ(survivors(row, {.top_k = 300, .top_p = 0.5F}).size(), 150U);
  EXPECT_EQ(survivors(row, {.top_k = 900, .top_p = 0.5F}).size(), 450U);
  EXPECT_EQ(survivors(row, {.top_k = 400}).size(), 400U);
  EXPECT_EQ(survivors(row, {.min_p = 1.0F}).size(), 1000U);
  EXPECT_EQ(*survivors(row, {.top_k = 400}).rbegin(), 399);  // ties: the lowest ids stay
}

TEST(Filters, MinusZeroTiesWithZero) {
  std::vector<float> row(600, -0.0F);
  for (size_t i = 1; i < row.size(); i += 2) row[i] = 0.0F;
  row[599] = 1.0F;
  const auto ids = survivors(row, {.top_k = 300});
  EXPECT_EQ(ids.size(), 300U);
  EXPECT_TRUE(ids.contains(599));
  EXPECT_TRUE(ids.contains(298));
  EXPECT_FALSE(ids.contains(299));
}

TEST(Filters, OneAlwaysSurvives) {
  const auto row = random_row(3, 300, 1.0F);
  EXPECT_EQ(survivors(row, {.top_k = 1}).size(), 1U);
  EXPECT_EQ(survivors(row, {.top_p = 1e-30F}).size(), 1U);
  EXPECT_EQ(survivors(row, {.top_p = 1e-30F, .min_p = 1.0F}).size(), 1U);
}

TEST(Validate, NamesTheField) {
  EXPECT_TRUE(validate({}).ok());
  const float nan = std::nanf("");
  EXPECT_EQ(validate({.temperature = -0.1F}).error().field, "temperature");
  EXPECT_EQ(validate({.temperature = nan}).error().field, "temperature");
  EXPECT_EQ(validate({.temperature = HUGE_VALF}).error().field, "temperature");
  EXPECT_EQ(validate({.top_k = -1}).error().field, "top_k");
  EXPECT_EQ(validate({.top_p = 0.0F}).error().field, "top_p");
  EXPECT_EQ(validate({.top_p = 1.1F}).error().field, "top_p");
  EXPECT_EQ(validate({.top_p = nan}).error().field, "top_p");
  EXPECT_EQ(validate({.min_p = -0.5F}).error().field, "min_p");
  EXPECT_EQ(validate({.min_p = nan}).error().field, "min_p");
}

}  // namespace
}  // namespace tandem::sampling
