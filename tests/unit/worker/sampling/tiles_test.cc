#include "worker/sampling/tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "rows.h"

namespace tandem::sampling {
namespace {

using testing::random_row;

constexpr SummaryNeeds kAll{.sum_exp = true, .top = true, .temperature = 0.7};

void expect_same(const RowSummary& a, const RowSummary& b) {
  EXPECT_EQ(a.best.token, b.best.token);
  EXPECT_EQ(a.sum_exp, b.sum_exp);  // the same bits
  ASSERT_EQ(a.top.size(), b.top.size());
  for (size_t i = 0; i < a.top.size(); ++i) EXPECT_EQ(a.top[i].token, b.top[i].token) << i;
}

// Tiles summed up apart (as ranks would, without a floor from their left) and merged in order.
TEST(Tiles, MergedTilesEqualTheRow) {
  const auto row = random_row(5, 49152, 3.0F, 0.01F);
  RowSummary merged;
  for (size_t begin = 0; begin < row.size(); begin += kTileIds) {
    const RowSummary tile = summarize_tile(std::span(row).subspan(begin, kTileIds),
                                           static_cast<int32_t>(begin), kAll, nullptr);
    merged = begin == 0 ? tile : merge(merged, tile, kAll);
  }
  expect_same(merged, summarize_row(row, kAll));
}

TEST(Tiles, TopIsTheSortedHead) {
  for (size_t size : {1UL, 255UL, 256UL, 257UL, 4096UL, 4097UL, 20000UL}) {
    const auto row = random_row(static_cast<uint32_t>(size), size, 2.0F, 0.05F);
    const RowSummary summary = summarize_row(row, kAll);
    const auto ids = testing::naive_survivors(row, {.top_k = kTopPerTile});
    ASSERT_EQ(summary.top.size(), ids.size());
    for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(summary.top[i].token, ids[i]);
    EXPECT_EQ(summary.best.token, ids[0]);
  }
}

TEST(Tiles, SumOfExponentials) {
  const auto row = random_row(6, 9000, 4.0F);
  const double best = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (float x : row) sum += std::exp((x - best) / 0.7);
  EXPECT_NEAR(summarize_row(row, kAll).sum_exp / sum, 1.0, 1e-12);
}

TEST(Tiles, NanAndInfinityAreFoundInEveryTile) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), kInf, -kInf}) {
    for (size_t at : {0UL, 4095UL, 4096UL, 9999UL}) {
      auto row = random_row(7, 10000, 1.0F);
      EXPECT_TRUE(summarize_row(row, kAll).finite);
      row[at] = bad;
      EXPECT_FALSE(summarize_row(row, kAll).finite);
    }
  }
}

TEST(Tiles, TiesGoToTheLowestId) {
  std::vector<float> row(10000, 1.0F);
  row[9000] = 2.0F;
  row[4097] = 2.0F;
  EXPECT_EQ(summarize_row(row, {}).best.token, 4097);
}

}  // namespace
}  // namespace tandem::sampling
