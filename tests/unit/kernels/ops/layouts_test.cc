#include "kernels/ops/layouts.h"

#include <gtest/gtest.h>

#include <set>

namespace tandem::ops {
namespace {

TEST(TreeSplit, IsTheLargestPowerOfTwoBelow) {
  const int expected[] = {1, 2, 2, 4, 4, 4, 4};
  for (int n = 2; n <= 8; ++n) EXPECT_EQ(tree_split(n), expected[n - 2]) << n;
}

TEST(TreeSplitDeathTest, RefusesOneLeafAndNine) {
  EXPECT_DEATH(tree_split(1), "CHECK_KERNEL failed");
  EXPECT_DEATH(tree_split(9), "CHECK_KERNEL failed");
}

// A block is [layer][K|V][kv_head][tile] without gaps.
TEST(PagedKvLayout, TilesFillThePoolWithoutGapOrOverlap) {
  const PagedKvLayout layout{.num_layers = 3,
                             .num_kv_heads = 2,
                             .head_dim = 8,
                             .block_size = 16,
                             .dtype = tensor::DType::kBF16};
  EXPECT_EQ(layout.tile_bytes(), 16 * 8 * 2);
  EXPECT_EQ(layout.block_bytes(), 3 * 2 * 2 * layout.tile_bytes());
  int64_t expected = 0;
  for (int64_t block = 0; block < 2; ++block) {
    for (int64_t layer = 0; layer < 3; ++layer) {
      for (int kv : {PagedKvLayout::kKey, PagedKvLayout::kValue}) {
        for (int64_t head = 0; head < 2; ++head, expected += layout.tile_bytes()) {
          EXPECT_EQ(layout.tile_offset(block, layer, kv, head), expected);
        }
      }
    }
  }
  EXPECT_EQ(expected, 2 * layout.block_bytes());
}

}  // namespace
}  // namespace tandem::ops
