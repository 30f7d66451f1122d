#include <gtest/gtest.h>

#include "comm/kvlink/tcp/landing_registry.h"
#include "link_fixture.h"

namespace tandem::kvlink {
namespace {

const Incarnation kSource(11);

wire::Push header(const Blocks& blocks, uint32_t i, uint32_t epoch = 0) {
  wire::Push push;
  push.set_grant(blocks.grant.value);
  push.set_epoch(epoch);
  push.set_block_index(i);
  push.set_chain_hash_low(blocks.hashes[i].low);
  push.set_chain_hash_high(blocks.hashes[i].high);
  return push;
}

TEST(LandingRegistry, AdmitsOnlyTheRegisteredSecret) {
  LandingRegistry registry;
  EXPECT_FALSE(registry.admits(kSource, 0));
  registry.expect(kSource, 5);
  EXPECT_TRUE(registry.admits(kSource, 5));
  EXPECT_FALSE(registry.admits(kSource, 6));
  registry.forget(kSource);
  EXPECT_FALSE(registry.admits(kSource, 5));
}

TEST(LandingRegistry, WritesABlockOncePerEpoch) {
  LandingRegistry registry;
  registry.expect(kSource, 5);
  Blocks blocks(1, 2, 64);
  const auto deposit = [&](uint32_t i, uint32_t epoch = 0) {
    return registry.deposit(kSource, header(blocks, i, epoch), blocks.source[i], true, true);
  };
  EXPECT_EQ(deposit(0).outcome, DepositOutcome::kDiscarded);  // nothing is open
  registry.open(blocks.landing(kSource));
  const Deposit first = deposit(0);
  EXPECT_EQ(first.outcome, DepositOutcome::kVerified);
  EXPECT_TRUE(registry.is_open(blocks.grant, first.landing_id));
  EXPECT_EQ(deposit(0).outcome, DepositOutcome::kDiscarded);
  EXPECT_EQ(deposit(1, 1).outcome, DepositOutcome::kDiscarded);
  registry.open(blocks.landing(kSource, 1));  // the next epoch
  EXPECT_FALSE(registry.is_open(blocks.grant, first.landing_id));
  EXPECT_EQ(deposit(0, 1).outcome, DepositOutcome::kVerified);
  registry.close(blocks.grant);
  EXPECT_EQ(deposit(1, 1).outcome, DepositOutcome::kDiscarded);
  EXPECT_TRUE(blocks.untouched(1));
}

TEST(LandingRegistry, DiscardsABlockIndexOutsideTheLanding) {
  LandingRegistry registry;
  registry.expect(kSource, 5);
  Blocks blocks(1, 2, 64);
  registry.open(blocks.landing(kSource, 0, 1));
  wire::Push push = header(blocks, 1);
  for (const uint32_t index : {0u, 2u, 0xffffffffu}) {
    push.set_block_index(index);
    EXPECT_EQ(registry.deposit(kSource, push, blocks.source[1], true, true).outcome,
              DepositOutcome::kDiscarded);
  }
}

TEST(LandingRegistry, ACorruptPartMayComeAgain) {
  LandingRegistry registry;
  registry.expect(kSource, 5);
  Blocks blocks(1, 1, 64);
  registry.open(blocks.landing(kSource));
  EXPECT_EQ(registry.deposit(kSource, header(blocks, 0), blocks.source[0], false, true).outcome,
            DepositOutcome::kCorrupt);
  EXPECT_TRUE(blocks.untouched(0));
  EXPECT_EQ(registry.deposit(kSource, header(blocks, 0), blocks.source[0], true, true).outcome,
            DepositOutcome::kVerified);
}

}  // namespace
}  // namespace tandem::kvlink
