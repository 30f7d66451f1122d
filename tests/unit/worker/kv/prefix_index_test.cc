#include "worker/kv/prefix_index.h"

#include <gtest/gtest.h>

#include <set>

#include "comm/runtime/rng.h"

namespace tandem::kv {
namespace {

constexpr uint32_t kBlockSize = 4;

// A sequence with its hashes; query() and content(i) view it.
struct Sequence {
  explicit Sequence(std::vector<uint32_t> t, const char* salt = "")
      : seed(wire::chain_seed("model", "class", salt)), tokens(std::move(t)),
        hashes(wire::chain_hashes(seed, tokens, kBlockSize)) {}

  PrefixQuery query(uint32_t max_blocks) const {
    return {.seed = seed, .hashes = hashes, .tokens = tokens, .block_size = kBlockSize,
            .max_blocks = max_blocks};
  }
  PrefixQuery query() const {
    return query(max_cached_blocks(static_cast<uint32_t>(tokens.size()), kBlockSize));
  }
  BlockContent content(uint32_t i) const {
    return {i == 0 ? seed : hashes[i - 1], hashes[i],
            std::span(tokens).subspan(i * kBlockSize, kBlockSize)};
  }

  wire::Hash128 seed;
  std::vector<uint32_t> tokens;
  std::vector<wire::Hash128> hashes;
};

// CASE D1: B-1, B, B+1, 2B, 2B+1 tokens; at least one is always computed.
TEST(PrefixIndex, LeavesAtLeastOneTokenToCompute) {
  EXPECT_EQ(max_cached_blocks(0, 4), 0u);
  EXPECT_EQ(max_cached_blocks(1, 4), 0u);
  EXPECT_EQ(max_cached_blocks(3, 4), 0u);
  EXPECT_EQ(max_cached_blocks(4, 4), 0u);
  EXPECT_EQ(max_cached_blocks(5, 4), 1u);
  EXPECT_EQ(max_cached_blocks(8, 4), 1u);
  EXPECT_EQ(max_cached_blocks(9, 4), 2u);
}

TEST(PrefixIndex, MatchesTheLongestPublishedPrefix) {
  PrefixIndex index(128);
  const Sequence a({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13});
  ASSERT_TRUE(index.insert(BlockId(5), a.content(0)));
  ASSERT_TRUE(index.insert(BlockId(2), a.content(1)));
  EXPECT_EQ(index.match(a.query()), (std::vector{BlockId(5), BlockId(2)}));
  EXPECT_EQ(index.match(a.query(1)), (std::vector{BlockId(5)}));
  const Sequence exact({1, 2, 3, 4, 5, 6, 7, 8});  // fully cached, yet 1 block at most
  EXPECT_EQ(index.match(exact.query()), (std::vector{BlockId(5)}));
  const Sequence other({1, 2, 3, 4, 5, 6, 7, 9, 9});
  EXPECT_EQ(index.match(other.query()), (std::vector{BlockId(5)}));
}

TEST(PrefixIndex, AHoleEndsTheMatch) {
  PrefixIndex index(128);
  const Sequence a({1, 2, 3, 4, 5, 6, 7, 8, 9});
  ASSERT_TRUE(index.insert(BlockId(0), a.content(0)));
  ASSERT_TRUE(index.insert(BlockId(1), a.content(1)));
  index.erase(BlockId(0));
  EXPECT_TRUE(index.match(a.query()).empty());
}

TEST(PrefixIndex, TenantsDontSeeEachOther) {
  PrefixIndex index(128);
  const Sequence x({1, 2, 3, 4, 5}, "x");
  const Sequence y({1, 2, 3, 4, 5}, "y");
  ASSERT_TRUE(index.insert(BlockId(0), x.content(0)));
  EXPECT_TRUE(index.match(y.query()).empty());
  EXPECT_EQ(index.match(x.query()).size(), 1u);
}

TEST(PrefixIndex, KeepsTheOlderOfTwoEqualBlocks) {
  PrefixIndex index(128);
  const Sequence a({1, 2, 3, 4, 5});
  EXPECT_TRUE(index.insert(BlockId(0), a.content(0)));
  EXPECT_FALSE(index.insert(BlockId(1), a.content(0)));
  EXPECT_EQ(index.match(a.query()), (std::vector{BlockId(0)}));
  EXPECT_FALSE(index.contains(BlockId(1)));
  EXPECT_TRUE(index.consistent());
}

// CASE D3: with 8 bits of hash, 2,000 random prompts collide all the time. A hit must still be the
// very content that was asked for.
TEST(PrefixIndex, AWeakHashCostsMissesNeverWrongBlocks) {
  PrefixIndex index(8);
  SplitMix64 rng(3);
  std::vector<std::vector<uint32_t>> prefix_of;  // by block: all tokens up to its end
  uint32_t hits = 0, collisions = 0;
  for (int prompt = 0; prompt < 2000; ++prompt) {
    std::vector<uint32_t> tokens;
    for (int i = 0; i < 13; ++i) tokens.push_back(static_cast<uint32_t>(rng.below(2)));
    const Sequence s(tokens);
    const auto matched = index.match(s.query());
    for (size_t i = 0; i < matched.size(); ++i) {
      const std::vector<uint32_t> want(tokens.begin(), tokens.begin() + (i + 1) * kBlockSize);
      ASSERT_EQ(prefix_of[matched[i].value], want) << "prompt " << prompt;
      ++hits;
    }
    for (uint32_t i = static_cast<uint32_t>(matched.size()); i < 3; ++i) {
      const BlockId block(static_cast<uint32_t>(prefix_of.size()));
      prefix_of.emplace_back(tokens.begin(), tokens.begin() + (i + 1) * kBlockSize);
      if (!index.insert(block, s.content(i))) ++collisions;
    }
  }
  EXPECT_GT(hits, 100u);
  EXPECT_GT(collisions, 100u);
  EXPECT_LE(index.size(), 256u);
}

// Two parents, equal tokens: only the parent tells the second blocks apart under a 1-bit hash.
TEST(PrefixIndex, ComparesTheParentToo) {
  for (uint32_t first = 2; first < 40; ++first) {
    PrefixIndex index(1);
    const Sequence a({1, 1, 1, 1, 7, 7, 7, 7, 0});
    const Sequence b({first, 1, 1, 1, 7, 7, 7, 7, 0});
    if ((a.hashes[1].low & 1) != (b.hashes[1].low & 1)) continue;
    if ((a.hashes[0].low & 1) == (a.hashes[1].low & 1)) continue;
    if ((b.hashes[0].low & 1) == (a.hashes[1].low & 1)) continue;
    ASSERT_TRUE(index.insert(BlockId(0), b.content(0)));
    ASSERT_TRUE(index.insert(BlockId(1), a.content(1)));
    EXPECT_EQ(index.match(b.query()), (std::vector{BlockId(0)}));
    return;
  }
  FAIL() << "no colliding pair among the candidates";
}

}  // namespace
}  // namespace tandem::kv
