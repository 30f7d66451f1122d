#include "worker/kv/block_pool.h"

#include <gtest/gtest.h>

namespace tandem::kv {
namespace {

// An unused LeaseOwner with a recognisable key.
LeaseOwner owner(uint64_t key) { return {.key = key, .incarnation = {}, .deadline = {}}; }

// Published content of a one-block chain that starts with `first`.
struct OneBlock {
  explicit OneBlock(uint32_t first)
      : seed(wire::chain_seed("m", "c", "")), tokens{first, 0, 0},
        hashes(wire::chain_hashes(seed, tokens, 2)) {}
  BlockContent content() const { return {seed, hashes[0], std::span(tokens).first(2)}; }
  PrefixQuery query() const {
    return {.seed = seed, .hashes = hashes, .tokens = tokens, .block_size = 2, .max_blocks = 1};
  }
  wire::Hash128 seed;
  std::vector<uint32_t> tokens;
  std::vector<wire::Hash128> hashes;
};

BlockCounts counts(uint32_t free, uint32_t cached, uint32_t leased) {
  return {free, cached, leased, free + cached + leased};
}

TEST(BlockPool, LeasesAllOrNothing) {
  BlockPool pool(4);
  auto a = pool.lease(owner(1), {}, 3);
  ASSERT_TRUE(a.has_value());
  EXPECT_EQ(a->num_blocks(), 3u);
  EXPECT_FALSE(pool.lease(owner(2), {}, 2).has_value());
  EXPECT_EQ(pool.counts(), counts(1, 0, 3));
  EXPECT_TRUE(a->extend(1));
  EXPECT_FALSE(a->extend(1));
  EXPECT_EQ(a->num_blocks(), 4u);
  pool.check();
}

TEST(BlockPool, ReturnsBlocksWhenTheHandleDies) {
  BlockPool pool(4);
  { auto a = pool.lease(owner(1), {}, 4); }
  EXPECT_EQ(pool.counts(), counts(4, 0, 0));
  EXPECT_EQ(pool.num_leases(), 0u);
}

TEST(BlockPool, MovedHandlesReleaseOnce) {
  BlockPool pool(4);
  auto a = pool.lease(owner(1), {}, 2);
  BlockLease b = std::move(*a);
  EXPECT_FALSE(a->held());
  EXPECT_EQ(b.num_blocks(), 2u);
  auto c = pool.lease(owner(2), {}, 2);
  b = std::move(*c);  // gives the first two back
  EXPECT_EQ(pool.counts(), counts(2, 0, 2));
  EXPECT_EQ(b.owner().key, 2u);
  b.release();
  b.release();
  EXPECT_EQ(pool.counts(), counts(4, 0, 0));
  pool.check();
}

TEST(BlockPool, ReturnsBlockWhenLastReferenceDrops) {
  BlockPool pool(4);
  auto a = pool.lease(owner(1), {}, 2);
  const std::vector<BlockId> shared(a->blocks().begin(), a->blocks().end());
  auto fork = pool.lease(owner(2), shared, 1);
  EXPECT_EQ(pool.counts(), counts(1, 0, 3));
  a->release();
  EXPECT_EQ(pool.counts(), counts(1, 0, 3));
  pool.check();
  fork->release();
  EXPECT_EQ(pool.counts(), counts(4, 0, 0));
}

TEST(BlockPool, PublishedBlocksFallBackToCachedAndAreFoundAgain) {
  BlockPool pool(2);
  const OneBlock x(1);
  auto a = pool.lease(owner(1), {}, 1);
  const BlockId block = a->blocks()[0];
  EXPECT_TRUE(pool.match(x.query()).empty());  // invisible until published
  EXPECT_TRUE(pool.publish(block, x.content()));
  EXPECT_FALSE(pool.publish(block, x.content()));
  EXPECT_EQ(pool.match(x.query()), std::vector{block});  // shared while leased
  a->release();
  EXPECT_EQ(pool.counts(), counts(1, 1, 0));
  const auto hit = pool.match(x.query());
  auto b = pool.lease(owner(2), hit, 1);
  ASSERT_TRUE(b.has_value());
  EXPECT_EQ(b->blocks()[0], block);
  EXPECT_EQ(pool.counts(), counts(0, 0, 2));
  pool.check();
}

TEST(BlockPool, NeverEvictsTheBlocksItIsAskedToShare) {
  BlockPool pool(2);
  const OneBlock x(1), y(2);
  for (const OneBlock* content : {&x, &y}) {
    auto a = pool.lease(owner(1), {}, 1);
    ASSERT_TRUE(pool.publish(a->blocks()[0], content->content()));
  }
  EXPECT_EQ(pool.counts(), counts(0, 2, 0));
  const auto hit = pool.match(x.query());
  EXPECT_FALSE(pool.can_lease(hit, 2));
  EXPECT_FALSE(pool.lease(owner(2), hit, 2).has_value());
  EXPECT_EQ(pool.counts(), counts(0, 2, 0));  // refusal changes nothing
  auto b = pool.lease(owner(2), hit, 1);
  ASSERT_TRUE(b.has_value());
  EXPECT_TRUE(pool.match(y.query()).empty());  // y made room
  EXPECT_EQ(pool.num_evictions(), 1u);
  pool.check();
}

TEST(BlockPool, EvictsTheLeastRecentlyUsed) {
  BlockPool pool(3);
  const OneBlock x(1), y(2), z(3);
  for (const OneBlock* content : {&x, &y, &z}) {
    auto a = pool.lease(owner(1), {}, 1);
    ASSERT_TRUE(pool.publish(a->blocks()[0], content->content()));
  }
  EXPECT_EQ(pool.match(x.query()).size(), 1u);  // x counts as used; y is now the oldest
  EXPECT_EQ(pool.peek(y.query()).size(), 1u);   // a peek doesn't count
  auto b = pool.lease(owner(2), {}, 1);
  EXPECT_TRUE(pool.peek(y.query()).empty());
  EXPECT_EQ(pool.peek(x.query()).size(), 1u);
  EXPECT_EQ(pool.peek(z.query()).size(), 1u);
}

TEST(BlockPool, EvictsTheTailOfASequenceFirst) {
  BlockPool pool(3);
  const auto seed = wire::chain_seed("m", "c", "");
  const std::vector<uint32_t> tokens{1, 2, 3, 4, 5, 6, 7};
  const auto hashes = wire::chain_hashes(seed, tokens, 2);
  const PrefixQuery query{seed, hashes, tokens, 2, 3};
  auto a = pool.lease(owner(1), {}, 3);
  for (uint32_t i = 0; i < 3; ++i) {
    const auto part = std::span(tokens).subspan(2 * i, 2);
    ASSERT_TRUE(pool.publish(a->blocks()[i], {i == 0 ? seed : hashes[i - 1], hashes[i], part}));
  }
  a->release();
  EXPECT_EQ(pool.match(query).size(), 3u);
  auto b = pool.lease(owner(2), {}, 1);
  EXPECT_EQ(pool.peek(query).size(), 2u);
}

TEST(BlockPool, AnEarlierEqualBlockStaysAndTheLaterOneBecomesFree) {
  BlockPool pool(2);
  const OneBlock x(1);
  auto a = pool.lease(owner(1), {}, 1);
  auto b = pool.lease(owner(2), {}, 1);
  EXPECT_TRUE(pool.publish(a->blocks()[0], x.content()));
  EXPECT_FALSE(pool.publish(b->blocks()[0], x.content()));
  b->release();
  EXPECT_EQ(pool.counts(), counts(1, 0, 1));
  a->release();
  EXPECT_EQ(pool.counts(), counts(1, 1, 0));
  pool.evict_all_cached();
  EXPECT_EQ(pool.counts(), counts(2, 0, 0));
  pool.check();
}

TEST(BlockPool, ShrinkGivesBackTheTail) {
  BlockPool pool(4);
  auto a = pool.lease(owner(1), {}, 4);
  a->shrink(1);
  EXPECT_EQ(a->num_blocks(), 1u);
  EXPECT_EQ(pool.counts(), counts(3, 0, 1));
  a->shrink(0);
  EXPECT_TRUE(a->held());
  EXPECT_TRUE(a->extend(4));
  pool.check();
}

TEST(BlockPool, ReportsOwnersInOrder) {
  BlockPool pool(4);
  auto a = pool.lease(owner(7), {}, 1);
  auto b = pool.lease(owner(3), {}, 1);
  a->renew(TimePoint(Duration(5)));
  b->set_owner({.key = 4, .incarnation = Incarnation(9), .deadline = {}});
  const auto owners = pool.owners();
  ASSERT_EQ(owners.size(), 2u);
  EXPECT_EQ(owners[0].key, 7u);
  EXPECT_EQ(owners[0].deadline, TimePoint(Duration(5)));
  EXPECT_EQ(owners[1].incarnation, Incarnation(9));
}

TEST(BlockPoolDeath, RefusesToDieWithLeases) {
  EXPECT_DEATH(
      {
        auto pool = std::make_unique<BlockPool>(1);
        auto a = pool->lease(owner(1), {}, 1);
        pool.reset();
      },
      "CHECK failed");
}

TEST(BlockPoolDeath, RefusesToPublishABlockNobodyHolds) {
  BlockPool pool(1);
  const OneBlock x(1);
  EXPECT_DEATH((void)pool.publish(BlockId(0), x.content()), "CHECK failed");
}

}  // namespace
}  // namespace tandem::kv
