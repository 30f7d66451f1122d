#include "comm/topology/membership.h"

#include <gtest/gtest.h>

#include "comm/topology/lag_clock.h"
#include "comm/wire/limits.h"

namespace tandem::topology {
namespace {
using namespace std::chrono_literals;

constexpr uint64_t kPeer = 11;

wire::Hello hello_of(const std::string& name, const std::string& role) {
  wire::Hello hello;
  hello.set_protocol_version(wire::kProtocolVersion);
  hello.set_instance(name);
  hello.set_role(role);
  auto* d = hello.mutable_descriptor();
  d->set_model_digest("m");
  d->set_numerics_class("n");
  d->set_num_blocks(8);
  d->mutable_kv()->set_block_size(32);
  d->mutable_kv()->set_dtype("bf16");
  d->mutable_kv()->set_tile_format("t");
  d->add_link_endpoints("tcp://127.0.0.1:1");
  return hello;
}

struct MembershipTest : ::testing::Test {
  MembershipTest() : members(config::Deadlines{}, Expected{"m", "", "bf16", 32, ""}) {
    members.configure("decode-0", Role::kDecode);
  }
  JoinResult join(uint64_t incarnation, wire::Hello hello = hello_of("decode-0", "decode")) {
    return members.hello(now, kPeer, Incarnation{incarnation}, hello);
  }
  InstanceState state() { return members.find("decode-0")->state; }

  Membership members;
  TimePoint now{1h};
};

TEST_F(MembershipTest, SilenceMakesSuspectThenDead) {
  EXPECT_EQ(state(), InstanceState::kStarting);
  EXPECT_EQ(join(5).outcome, JoinOutcome::kJoined);
  EXPECT_TRUE(members.tick(now + 999ms).empty());
  EXPECT_EQ(state(), InstanceState::kReady);
  EXPECT_TRUE(members.tick(now + 1s).empty());
  EXPECT_EQ(state(), InstanceState::kSuspect);
  EXPECT_TRUE(members.heard(now + 2s, kPeer, Incarnation{5}));
  EXPECT_EQ(state(), InstanceState::kReady);
  const auto fenced = members.tick(now + 5s);
  ASSERT_EQ(fenced.size(), 1u);
  EXPECT_EQ(fenced[0].why, "silent");
  EXPECT_FALSE(members.heard(now + 5s, kPeer, Incarnation{5}));
  EXPECT_EQ(join(5).refusal, "fenced");
  EXPECT_EQ(join(6).outcome, JoinOutcome::kJoined);
}

TEST_F(MembershipTest, AStalledPlanFencesALivelyProcess) {
  join(5);
  wire::Heartbeat beat;
  beat.set_plan_running(true);
  beat.set_plan_age_ms(2500);
  beat.set_plan_predicted_ms(1000);
  members.heartbeat(kPeer, beat);
  EXPECT_TRUE(members.tick(now).empty()) << "3 x prediction is the longer limit";
  beat.set_plan_age_ms(3001);
  members.heartbeat(kPeer, beat);
  ASSERT_EQ(members.tick(now).size(), 1u);
}

TEST_F(MembershipTest, NewIncarnationReplacesALiveOne) {
  join(5);
  const JoinResult second = join(6);
  EXPECT_EQ(second.replaced, Incarnation{5});
  EXPECT_EQ(members.stale_reason(kPeer, Incarnation{5}), "replaced");
  EXPECT_EQ(join(6).outcome, JoinOutcome::kRejoined);
}

TEST_F(MembershipTest, RefusalNamesTheDifferingField) {
  auto hello = hello_of("decode-0", "decode");
  hello.mutable_descriptor()->set_model_digest("other");
  EXPECT_EQ(join(5, hello).field, "model_digest");
  hello = hello_of("decode-0", "decode");
  hello.mutable_descriptor()->mutable_kv()->set_block_size(16);
  const JoinResult refused = join(5, hello);
  EXPECT_EQ(refused.field, "kv.block_size");
  EXPECT_NE(refused.refusal.find("16, the cluster has 32"), std::string::npos);
  hello = hello_of("decode-0", "decode");
  hello.set_protocol_version(99);
  EXPECT_EQ(join(5, hello).field, "protocol_version");
  EXPECT_EQ(join(5, hello_of("decode-7", "decode")).field, "instance");
  EXPECT_EQ(join(5, hello_of("decode-0", "prefill")).field, "role");
  hello = hello_of("decode-0", "decode");
  hello.mutable_descriptor()->mutable_kv()->set_dtype("f32");
  EXPECT_EQ(join(5, hello).field, "kv.dtype");
  EXPECT_EQ(join(5).outcome, JoinOutcome::kJoined) << "a refusal leaves no trace";
  hello = hello_of("decode-0", "decode");
  hello.mutable_descriptor()->set_numerics_class("other");
  EXPECT_EQ(join(6, hello).field, "numerics_class");
}

TEST(LagClock, TakesTheLoopsOwnLagOutOfDeadlines) {
  LagClock clock(500ms);
  TimePoint real{1h};
  clock.tick(real, 50ms);
  clock.tick(real += 550ms, 50ms);
  EXPECT_EQ(clock.lag(), 0ns) << "within tolerance";
  clock.tick(real += 4s, 50ms);
  EXPECT_EQ(clock.lag(), 3950ms);
  EXPECT_EQ(clock.now(real), real - 3950ms);
}

}  // namespace
}  // namespace tandem::topology
