#include "comm/transport/loopback/loopback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tandem::transport {
namespace {
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

// The smallest virtual loop: timers in order of time, then of creation.
class VirtualLoop final : public EventLoop {
 public:
  TimePoint now() const override { return now_; }
  void post(Handler handler) override { after(Duration(0), std::move(handler)); }
  TimerId after(Duration delay, Handler handler) override {
    timers_.emplace(std::pair(now_ + delay, ++last_), std::move(handler));
    return last_;
  }
  void cancel(TimerId timer) override {
    std::erase_if(timers_, [&](const auto& entry) { return entry.first.second == timer; });
  }
  void run_for(Duration span) {
    const TimePoint end = now_ + span;
    while (!timers_.empty() && timers_.begin()->first.first <= end) {
      auto entry = timers_.extract(timers_.begin());
      now_ = entry.key().first;
      entry.mapped()();
    }
    now_ = end;
  }

 private:
  TimePoint now_{};
  TimerId last_ = 0;
  std::map<std::pair<TimePoint, TimerId>, Handler> timers_;
};

// A hub that logs, and nodes that log, on one network.
class LoopbackTest : public testing::Test {
 protected:
  explicit LoopbackTest(uint64_t seed = 7) : rng_(seed), network_(loop_, rng_) {}

  void start_hub() {
    hub_ = network_.make_hub();
    hub_->bind("hub", {.on_message =
                           [this](PeerId peer, std::string bytes) {
                             last_peer_ = peer;
                             hub_log_.push_back(bytes);
                           },
                       .on_peer_gone = [this](PeerId) { hub_log_.push_back("-gone"); }});
  }
  void start_node(const std::string& name = "n") {
    node_ = network_.make_node(name);
    node_->connect("hub", {.on_connected = [this] { node_log_.push_back("+up"); },
                           .on_disconnected = [this] { node_log_.push_back("-down"); },
                           .on_message = [this](std::string bytes) {
                             node_log_.push_back(bytes);
                           }});
  }
  void start() {
    start_hub();
    start_node();
    loop_.run_for(10ms);
    ASSERT_THAT(node_log_, ElementsAre("+up"));
    ASSERT_TRUE(node_->send("hello").ok());
    loop_.run_for(10ms);
    ASSERT_THAT(hub_log_, ElementsAre("hello"));
    hub_log_.clear();
    node_log_.clear();
  }
  void send_both(int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(node_->send(std::to_string(i)).ok());
      ASSERT_TRUE(hub_->send(last_peer_, std::to_string(i)).ok());
    }
  }

  VirtualLoop loop_;
  SplitMix64 rng_;
  LoopbackNetwork network_;
  std::unique_ptr<HubTransport> hub_;
  std::unique_ptr<NodeTransport> node_;
  PeerId last_peer_;
  std::vector<std::string> hub_log_;
  std::vector<std::string> node_log_;
};

// log must be "0" "1" … up to some number below `sent`, then `end`. Returns how many came.
size_t expect_prefix(const std::vector<std::string>& log, int sent, const std::string& end) {
  EXPECT_FALSE(log.empty());
  if (log.empty()) return 0;
  EXPECT_EQ(log.back(), end);
  EXPECT_LE(log.size() - 1, static_cast<size_t>(sent));
  for (size_t i = 0; i + 1 < log.size(); ++i) EXPECT_EQ(log[i], std::to_string(i));
  return log.size() - 1;
}

TEST_F(LoopbackTest, DeliversInOrderBothWays) {
  start();
  send_both(100);
  EXPECT_TRUE(hub_log_.empty());   // never inside send()
  loop_.run_for(1s);
  ASSERT_EQ(hub_log_.size(), 100u);
  ASSERT_EQ(node_log_.size(), 100u);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(hub_log_[i], std::to_string(i));
    EXPECT_EQ(node_log_[i], std::to_string(i));
  }
}

TEST_F(LoopbackTest, DisconnectLosesASuffixAndReconnectsAsANewPeer) {
  start();
  const PeerId before = last_peer_;
  send_both(50);
  network_.disconnect("n");
  EXPECT_TRUE(node_->send("after the cut").ok());   // not told yet: accepted, lost
  loop_.run_for(50ms);
  const size_t to_hub = expect_prefix(hub_log_, 50, "-gone");
  const size_t to_node = expect_prefix(node_log_, 50, "-down");
  EXPECT_EQ(network_.stats().lost, 100 - to_hub - to_node + 1);
  EXPECT_EQ(node_->send("x").error().code, ErrorCode::kUnavailable);

  loop_.run_for(1s);
  EXPECT_EQ(node_log_.back(), "+up");
  ASSERT_TRUE(node_->send("again").ok());
  loop_.run_for(10ms);
  EXPECT_EQ(hub_log_.back(), "again");
  EXPECT_NE(last_peer_, before);
  EXPECT_TRUE(hub_->send(before, "to a gone peer").ok());
  loop_.run_for(1s);
  EXPECT_EQ(node_log_.back(), "+up");
}

TEST_F(LoopbackTest, CrashedNodeHearsNothingAndTheHubIsTold) {
  start();
  send_both(50);
  network_.crash("n");
  EXPECT_FALSE(node_->send("x").ok());
  loop_.run_for(1s);
  expect_prefix(hub_log_, 50, "-gone");
  EXPECT_TRUE(node_log_.empty());
  node_.reset();
  start_node();
  loop_.run_for(1s);
  EXPECT_THAT(node_log_, ElementsAre("+up"));
}

TEST_F(LoopbackTest, HubRestartIsSeenAsDisconnectAndReconnect) {
  start();
  network_.crash_hub("hub");
  loop_.run_for(1s);
  EXPECT_THAT(node_log_, ElementsAre("-down"));
  EXPECT_TRUE(hub_log_.empty());
  hub_.reset();
  start_hub();
  loop_.run_for(1s);
  EXPECT_THAT(node_log_, ElementsAre("-down", "+up"));
}

TEST_F(LoopbackTest, ShortPartitionOnlyDelays) {
  start();
  network_.partition("n", true);
  send_both(3);
  loop_.run_for(400ms);
  EXPECT_TRUE(hub_log_.empty());
  network_.partition("n", false);
  loop_.run_for(10ms);
  EXPECT_THAT(hub_log_, ElementsAre("0", "1", "2"));
  EXPECT_THAT(node_log_, ElementsAre("0", "1", "2"));
  loop_.run_for(2s);
  EXPECT_EQ(hub_log_.size(), 3u);   // no late detection
}

TEST_F(LoopbackTest, LongPartitionEndsTheConnectionOnBothSides) {
  start();
  network_.partition("n", true);
  send_both(3);
  loop_.run_for(2s);
  EXPECT_THAT(hub_log_, ElementsAre("-gone"));
  EXPECT_THAT(node_log_, ElementsAre("-down"));
  network_.partition("n", false);
  loop_.run_for(200ms);
  EXPECT_THAT(node_log_, ElementsAre("-down", "+up"));
}

TEST_F(LoopbackTest, DestroyedEndClosesAfterWhatItSent) {
  start();
  send_both(5);
  node_.reset();
  loop_.run_for(1s);
  EXPECT_EQ(expect_prefix(hub_log_, 5, "-gone"), 5u);
  EXPECT_TRUE(node_log_.empty());
}

TEST_F(LoopbackTest, RefusesOversizeAndOverflow) {
  start();
  const TransportLimits limits;
  EXPECT_EQ(node_->send(std::string(limits.max_message_bytes + 1, 'x')).error().code,
            ErrorCode::kInvalidArgument);
  Status last;
  size_t accepted = 0;
  while ((last = node_->send("m")).ok()) ++accepted;
  EXPECT_EQ(last.error().code, ErrorCode::kExhausted);
  EXPECT_EQ(accepted, limits.max_outbound_messages);
  loop_.run_for(1s);
  EXPECT_TRUE(node_->send("m").ok());
}

TEST_F(LoopbackTest, RefusesATakenEndpoint) {
  start();
  auto other = network_.make_hub();
  try {
    other->bind("hub", {});
    FAIL() << "bound twice";
  } catch (const StartupError& error) {
    EXPECT_THAT(error.what(), HasSubstr("hub: address already in use; choose another port"));
  }
}

TEST_F(LoopbackTest, BeaconRunsWhileConnected) {
  start_hub();
  node_ = network_.make_node("n");
  int beats = 0;
  node_->set_beacon(200ms, [&] { return ++beats == 2 ? std::string() : std::string("beat"); });
  node_->connect("hub", {});
  loop_.run_for(1100ms);
  EXPECT_EQ(beats, 5);
  EXPECT_EQ(hub_log_.size(), 4u);   // the empty one was skipped
  network_.crash("n");
  loop_.run_for(1s);
  EXPECT_EQ(beats, 5);
}

TEST_F(LoopbackTest, ObserverMayKillTheSenderOrTheReceiverAtEveryPoint) {
  for (const bool to_hub : {true, false}) {
    for (const MessagePoint point : {MessagePoint::kSending, MessagePoint::kSent,
                                     MessagePoint::kDelivering, MessagePoint::kHandled}) {
      SCOPED_TRACE(static_cast<int>(point) + 10 * to_hub);
      start();
      const bool at_sender = point == MessagePoint::kSending || point == MessagePoint::kSent;
      const bool kill_hub = at_sender != to_hub;
      network_.set_observer([&](const MessageEvent& event) {
        if (event.point != point) return;
        kill_hub ? network_.crash_hub("hub") : network_.crash("n");
      });
      static_cast<void>(to_hub ? node_->send("0") : hub_->send(last_peer_, "0"));
      loop_.run_for(1s);
      network_.set_observer(nullptr);
      const auto& receiver = to_hub ? hub_log_ : node_log_;
      const bool arrived = !receiver.empty() && receiver[0] == "0";
      if (point == MessagePoint::kHandled) {
        EXPECT_TRUE(arrived);
      }
      if (point == MessagePoint::kSending || point == MessagePoint::kDelivering) {
        EXPECT_FALSE(arrived);
      }
      const auto& survivor = kill_hub ? node_log_ : hub_log_;
      ASSERT_FALSE(survivor.empty());
      EXPECT_EQ(survivor.back(), kill_hub ? "-down" : "-gone");
      node_.reset();
      hub_.reset();
      loop_.run_for(1s);
      hub_log_.clear();
      node_log_.clear();
    }
  }
}

// Several nodes under random faults: everything seen, with its time, as one string.
std::string trace_of(uint64_t seed) {
  VirtualLoop loop;
  SplitMix64 rng(seed);
  LoopbackNetwork network(loop, rng);
  std::string trace;
  const auto note = [&](const std::string& what) {
    trace += std::to_string(loop.now().time_since_epoch().count()) + " " + what + "\n";
  };
  auto hub = network.make_hub();
  hub->bind("hub", {.on_message =
                        [&](PeerId peer, std::string bytes) {
                          note("hub<" + std::to_string(peer.value) + " " + bytes);
                          static_cast<void>(hub->send(peer, "re " + bytes));
                        },
                    .on_peer_gone =
                        [&](PeerId peer) { note("gone " + std::to_string(peer.value)); }});
  std::vector<std::unique_ptr<NodeTransport>> nodes;
  const std::vector<std::string> names = {"a", "b", "c"};
  for (const std::string& name : names) {
    nodes.push_back(network.make_node(name));
    nodes.back()->connect("hub", {.on_connected = [&, name] { note(name + " up"); },
                                  .on_disconnected = [&, name] { note(name + " down"); },
                                  .on_message = [&, name](std::string bytes) {
                                    note(name + "<" + bytes);
                                  }});
  }
  for (int step = 0; step < 200; ++step) {
    for (const auto& node : nodes) static_cast<void>(node->send(std::to_string(step)));
    if (rng.below(10) == 0) network.disconnect(names[rng.below(3)]);
    if (rng.below(20) == 0) network.partition(names[rng.below(3)], rng.below(2) == 0);
    loop.run_for(Duration(rng.below(5000000)));
  }
  return trace;
}

TEST(LoopbackNetwork, SameSeedReplaysExactly) {
  const std::string first = trace_of(1);
  EXPECT_GT(first.size(), 1000u);
  EXPECT_EQ(first, trace_of(1));
  EXPECT_NE(first, trace_of(2));
}

}  // namespace
}  // namespace tandem::transport
