#include "worker/kv/free_runs.h"

#include <gtest/gtest.h>

#include "comm/runtime/rng.h"
#include "worker/kv/lru_list.h"

namespace tandem::kv {
namespace {

std::vector<uint32_t> values(const std::vector<BlockId>& blocks) {
  std::vector<uint32_t> out;
  for (const BlockId block : blocks) out.push_back(block.value);
  return out;
}

using Ids = std::vector<uint32_t>;

TEST(FreeRuns, TakesNeighboursFromARunThatIsLongEnough) {
  FreeRuns runs(10);
  EXPECT_EQ(values(runs.take(10)).size(), 10u);
  for (const uint32_t b : {0u, 2u, 5u, 6u, 7u}) runs.put(BlockId(b));
  EXPECT_EQ(values(runs.take(3)), (Ids{5, 6, 7}));  // not 0, 2, 5
  EXPECT_EQ(values(runs.take(2)), (Ids{0, 2}));
  EXPECT_EQ(runs.size(), 0u);
}

TEST(FreeRuns, JoinsNeighboursInEveryOrder) {
  FreeRuns runs(3);
  runs.take(3);
  runs.put(BlockId(0));
  runs.put(BlockId(2));
  runs.put(BlockId(1));  // closes the gap
  EXPECT_TRUE(runs.consistent(3));
  EXPECT_EQ(values(runs.take(3)), (Ids{0, 1, 2}));
}

TEST(FreeRuns, StaysConsistentUnderRandomUse) {
  SplitMix64 rng(7);
  FreeRuns runs(64);
  std::vector<BlockId> taken;
  for (int step = 0; step < 2000; ++step) {
    if (rng.below(2) == 0 && runs.size() > 0) {
      const auto count = static_cast<uint32_t>(1 + rng.below(runs.size()));
      for (const BlockId block : runs.take(count)) taken.push_back(block);
    } else if (!taken.empty()) {
      std::swap(taken[rng.below(taken.size())], taken.back());
      EXPECT_FALSE(runs.contains(taken.back()));
      runs.put(taken.back());
      EXPECT_TRUE(runs.contains(taken.back()));
      taken.pop_back();
    }
    ASSERT_EQ(runs.size() + taken.size(), 64u);
    ASSERT_TRUE(runs.consistent(64)) << "step " << step;
  }
}

TEST(FreeRunsDeath, RefusesABlockTwice) {
  FreeRuns runs(2);
  EXPECT_DEATH(runs.put(BlockId(1)), "CHECK failed");
}

TEST(LruList, OrdersByLastUse) {
  LruList lru(4);
  EXPECT_FALSE(lru.oldest().has_value());
  for (const uint32_t b : {3u, 1u, 2u}) lru.push_newest(BlockId(b));
  lru.remove(BlockId(3));
  lru.push_newest(BlockId(3));
  EXPECT_EQ(values(lru.blocks()), (Ids{1, 2, 3}));
  EXPECT_EQ(lru.oldest(), BlockId(1));
  EXPECT_FALSE(lru.contains(BlockId(0)));
}

}  // namespace
}  // namespace tandem::kv
