#include "worker/engine/sequence.h"

#include <gtest/gtest.h>

#include "worker/engine/executor.h"

namespace tandem::engine {
namespace {

using scheduler::Range;
using Ranges = std::vector<Range>;

//  blocks of 4:  |0 1 2 3|4 5 6 7|8 9|      10 tokens
TEST(MissingRanges, JoinsNeighboursAndClipsTheLastBlock) {
  EXPECT_EQ(missing_ranges({false, false, false}, 4, 10, true), (Ranges{{0, 10}}));
  EXPECT_EQ(missing_ranges({true, false, false}, 4, 10, true), (Ranges{{4, 10}}));
  EXPECT_EQ(missing_ranges({false, true, false}, 4, 10, false), (Ranges{{0, 4}, {8, 10}}));
  EXPECT_EQ(missing_ranges({true, true, true}, 4, 10, false), Ranges{});
}

TEST(MissingRanges, SamplingNeedsTheLastPositionEvenWhenNothingIsMissing) {
  EXPECT_EQ(missing_ranges({true, true, true}, 4, 10, true), (Ranges{{9, 10}}));
  EXPECT_EQ(missing_ranges({true, false, true}, 4, 10, true), (Ranges{{4, 8}, {9, 10}}));
  EXPECT_EQ(missing_ranges({true, true}, 4, 8, true), (Ranges{{7, 8}}));
}

TEST(MissingRanges, ALedgerShorterThanTheTokensMeansMissing) {
  EXPECT_EQ(missing_ranges({true}, 4, 10, false), (Ranges{{4, 10}}));
}

TEST(LedgerDigest, CoversIdentityAndOrderOfItsBlocks) {
  std::vector<wire::Hash128> hashes = {{1, 2}, {3, 4}, {5, 6}};
  const uint64_t all = ledger_digest(hashes, 0, 3);
  EXPECT_NE(all, ledger_digest(hashes, 1, 3));
  std::swap(hashes[1], hashes[2]);
  EXPECT_NE(all, ledger_digest(hashes, 0, 3));
}

TEST(CachedPromptTokens, NeverCoverTheWholePromptNorEarlierOutput) {
  Sequence sequence;
  sequence.prompt_length = 8;
  sequence.cached_tokens = 4;
  EXPECT_EQ(cached_prompt_tokens(sequence), 4u);
  sequence.cached_tokens = 12;  // a later attempt: its inputs hold output of the earlier one
  EXPECT_EQ(cached_prompt_tokens(sequence), 7u);
}

TEST(PlanHash, ChangesWithEveryPartOfAnItem) {
  StepPlan plan;
  plan.sequence_number = 1;
  StepItem item;
  item.key = 7;
  item.tokens = {1, 2, 3};
  item.block_table = {BlockId{4}};
  plan.items.push_back(item);
  const uint64_t hash = plan_hash(plan);
  const auto differs = [&](auto change) {
    StepPlan other = plan;
    change(other);
    return plan_hash(other) != hash;
  };
  EXPECT_TRUE(differs([](StepPlan& p) { p.sequence_number = 2; }));
  EXPECT_TRUE(differs([](StepPlan& p) { p.items[0].key = 8; }));
  EXPECT_TRUE(differs([](StepPlan& p) { p.items[0].begin = 1; }));
  EXPECT_TRUE(differs([](StepPlan& p) { p.items[0].tokens[1] = 9; }));
  EXPECT_TRUE(differs([](StepPlan& p) { p.items[0].block_table[0] = BlockId{5}; }));
  EXPECT_TRUE(differs([](StepPlan& p) { p.items[0].sample = true; }));
}

}  // namespace
}  // namespace tandem::engine
