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

const Incarnation kSelf(22);

wire::LinkHello hello(uint64_t secret, uint64_t to = 22) {
  wire::LinkHello hello;
  hello.set_from_incarnation(kSource.value);
  hello.set_to_incarnation(to);
  hello.set_link_secret(secret);
  return hello;
}

// A registry that expects kSource, and the session it admits.
struct Admitted {
  Admitted() {
    registry.expect(kSource, 5);
    session = *registry.admit(hello(5));
  }
  LandingRegistry registry{kSelf};
  Session session;
};

TEST(LandingRegistry, AdmitsOnlyTheRegisteredSecret) {
  LandingRegistry registry(kSelf);
  EXPECT_FALSE(registry.admit(hello(0)).ok());
  registry.expect(kSource, 5);
  EXPECT_TRUE(registry.admit(hello(5)).ok());
  EXPECT_FALSE(registry.admit(hello(6)).ok());
  EXPECT_FALSE(registry.admit(hello(5, 23)).ok());
  registry.forget(kSource);
  EXPECT_FALSE(registry.admit(hello(5)).ok());
}

TEST(LandingRegistry, ASessionEndsWithItsRegistration) {
  Admitted a;
  a.registry.expect(kSource, 5);  // again, unchanged
  EXPECT_TRUE(a.registry.is_current(a.session));
  a.registry.forget(kSource);
  EXPECT_FALSE(a.registry.is_current(a.session));
  a.registry.expect(kSource, 5);  // expected again: the old connection isn't
  EXPECT_FALSE(a.registry.is_current(a.session));
}

TEST(LandingRegistry, ReincarnationEndsEverything) {
  Admitted a;
  Blocks blocks(1, 1, 64);
  a.registry.open(blocks.landing(kSource));
  a.registry.reincarnate(Incarnation(23));
  a.registry.expect(kSource, 5);
  EXPECT_FALSE(a.registry.is_current(a.session));
  EXPECT_FALSE(a.registry.admit(hello(5)).ok());
  const auto session = a.registry.admit(hello(5, 23));
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(a.registry.deposit(*session, header(blocks, 0), blocks.source[0], true, true).outcome,
            DepositOutcome::kDiscarded);  // the landing is gone
  a.registry.open(blocks.landing(kSource));
  EXPECT_EQ(a.registry.deposit(a.session, header(blocks, 0), blocks.source[0], true, true).outcome,
            DepositOutcome::kDiscarded);  // the old connection is worth nothing
  EXPECT_TRUE(blocks.untouched(0));
}

TEST(LandingRegistry, WritesABlockOncePerEpoch) {
  Admitted a;
  LandingRegistry& registry = a.registry;
  Blocks blocks(1, 2, 64);
  const auto deposit = [&](uint32_t i, uint32_t epoch = 0) {
    return registry.deposit(a.session, header(blocks, i, epoch), blocks.source[i], true, true);
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
  Admitted a;
  LandingRegistry& registry = a.registry;
  Blocks blocks(1, 2, 64);
  registry.open(blocks.landing(kSource, 0, 1));
  wire::Push push = header(blocks, 1);
  for (const uint32_t index : {0u, 2u, 0xffffffffu}) {
    push.set_block_index(index);
    EXPECT_EQ(registry.deposit(a.session, push, blocks.source[1], true, true).outcome,
              DepositOutcome::kDiscarded);
  }
}

TEST(LandingRegistry, ACorruptPartMayComeAgain) {
  Admitted a;
  LandingRegistry& registry = a.registry;
  Blocks blocks(1, 1, 64);
  registry.open(blocks.landing(kSource));
  EXPECT_EQ(registry.deposit(a.session, header(blocks, 0), blocks.source[0], false, true).outcome,
            DepositOutcome::kCorrupt);
  EXPECT_TRUE(blocks.untouched(0));
  EXPECT_EQ(registry.deposit(a.session, header(blocks, 0), blocks.source[0], true, true).outcome,
            DepositOutcome::kVerified);
}

}  // namespace
}  // namespace tandem::kvlink
