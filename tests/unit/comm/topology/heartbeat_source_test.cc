#include "comm/topology/heartbeat_source.h"

#include <gtest/gtest.h>

#include "comm/wire/codec.h"

namespace tandem::topology {
namespace {
using namespace std::chrono_literals;

struct StoppedClock final : Clock {
  TimePoint time{1h};
  TimePoint now() const override { return time; }
};

struct HeartbeatSourceTest : ::testing::Test {
  StoppedClock clock;
  HeartbeatSource source{clock};
};

TEST_F(HeartbeatSourceTest, IsSilentUntilItJoined) {
  source.identify(Incarnation{5}, Incarnation{});
  EXPECT_EQ(source.make(), "");
  source.identify(Incarnation{5}, Incarnation{9});
  const auto envelope = wire::decode(source.make());
  ASSERT_TRUE(envelope.ok());
  EXPECT_EQ(envelope->to_incarnation(), 9u);
  EXPECT_EQ(envelope->from_incarnation(), 5u);
}

TEST_F(HeartbeatSourceTest, CarriesTheAgeOfTheRunningPlan) {
  source.identify(Incarnation{5}, Incarnation{9});
  source.plan_started(clock.time, 40ms);
  clock.time += 70ms;
  const auto running = wire::decode(source.make());
  EXPECT_TRUE(running->heartbeat().plan_running());
  EXPECT_EQ(running->heartbeat().plan_age_ms(), 70u);
  EXPECT_EQ(running->heartbeat().plan_predicted_ms(), 40u);
  source.plan_finished();
  EXPECT_FALSE(wire::decode(source.make())->heartbeat().plan_running());
}

TEST_F(HeartbeatSourceTest, StallsPastTheMinimumAndThePrediction) {
  EXPECT_FALSE(source.stalled(2s, 3));
  source.plan_started(clock.time, 40ms);
  clock.time += 2s;
  EXPECT_FALSE(source.stalled(2s, 3));
  clock.time += 1ms;
  EXPECT_TRUE(source.stalled(2s, 3));
  EXPECT_FALSE(source.stalled(2s, 60)) << "60 x 40 ms are allowed";
  source.plan_finished();
  EXPECT_FALSE(source.stalled(2s, 3));
}

}  // namespace
}  // namespace tandem::topology
