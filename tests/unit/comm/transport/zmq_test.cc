#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "zmq_ends.h"

// ZeroMQ is not instrumented, so the thread sanitizer can't see how it orders its own threads.
extern "C" const char* __tsan_default_suppressions() { return "called_from_lib:libzmq.so\n"; }

namespace tandem::transport {
namespace {
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const StartupError& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(ZmqTransport, CarriesManyMessagesInOrderBothWays) {
  HubEnd hub;
  NodeEnd node;
  hub.start();
  EXPECT_THAT(hub.endpoint, testing::MatchesRegex("tcp://127.0.0.1:[1-9][0-9]*"));
  node.start(hub.endpoint);
  ASSERT_TRUE(node.log.wait_for(1));
  ASSERT_TRUE(node.send("first").ok());
  ASSERT_TRUE(hub.log.wait_for(1));

  constexpr int kCount = 10000;
  const auto payload = [](int i) { return std::to_string(i) + std::string(i % 100, 'x'); };
  const auto send_all = [&](auto& end) {
    for (int i = 0; i < kCount;) {
      if (end.send(payload(i)).ok()) {
        ++i;
      } else {
        std::this_thread::sleep_for(1ms);   // the queue is bounded
      }
    }
  };
  std::thread from_hub([&] { send_all(hub); });
  send_all(node);
  from_hub.join();
  ASSERT_TRUE(hub.log.wait_for(1 + kCount));
  ASSERT_TRUE(node.log.wait_for(1 + kCount));
  const auto at_hub = hub.log.entries();
  const auto at_node = node.log.entries();
  ASSERT_EQ(at_hub.size(), 1u + kCount);
  ASSERT_EQ(at_node.size(), 1u + kCount);
  for (int i = 0; i < kCount; ++i) {
    ASSERT_EQ(at_hub[1 + i], payload(i));
    ASSERT_EQ(at_node[1 + i], payload(i));
  }
}

TEST(ZmqTransport, KeepsNodesApart) {
  HubEnd hub;
  NodeEnd a, b;
  hub.start();
  a.start(hub.endpoint);
  ASSERT_TRUE(a.log.wait_for(1));
  ASSERT_TRUE(a.send("from a").ok());
  ASSERT_TRUE(hub.log.wait_for(1));
  const uint64_t peer_a = hub.last_peer;
  b.start(hub.endpoint);
  ASSERT_TRUE(b.log.wait_for(1));
  ASSERT_TRUE(b.send("from b").ok());
  ASSERT_TRUE(hub.log.wait_for(2));
  EXPECT_NE(hub.last_peer, peer_a);
  ASSERT_TRUE(hub.send("to b").ok());
  hub.last_peer = peer_a;
  ASSERT_TRUE(hub.send("to a").ok());
  ASSERT_TRUE(a.log.wait_for(2));
  ASSERT_TRUE(b.log.wait_for(2));
  EXPECT_THAT(a.log.entries(), ElementsAre("+up", "to a"));
  EXPECT_THAT(b.log.entries(), ElementsAre("+up", "to b"));
}

TEST(ZmqTransport, RefusesOversizeAtTheSender) {
  ZmqOptions options;
  options.limits.max_message_bytes = 1000;
  HubEnd hub(options);
  NodeEnd node(options);
  hub.start();
  node.start(hub.endpoint);
  ASSERT_TRUE(node.log.wait_for(1));
  const Status refused = node.send(std::string(1001, 'x'));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("1001 bytes; the limit is 1000"));
  EXPECT_TRUE(node.send(std::string(1000, 'y')).ok());
  ASSERT_TRUE(hub.log.wait_for(1));
  EXPECT_EQ(hub.log.entries()[0].size(), 1000u);
}

TEST(ZmqTransport, RefusesToSendWhileNotConnected) {
  NodeEnd node;
  node.start("tcp://127.0.0.1:1");   // nobody listens there
  const Status refused = node.send("x");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
}

TEST(ZmqTransport, NamesTheEndpointItCannotBind) {
  HubEnd hub;
  hub.start();
  ThreadLoop loop;
  EXPECT_THAT(refusal([&] { make_zmq_hub(loop)->bind(hub.endpoint, {}); }),
              HasSubstr("can't listen on " + hub.endpoint +
                        ": address already in use; choose another port"));
  EXPECT_THAT(refusal([&] { make_zmq_hub(loop)->bind("nonsense", {}); }),
              HasSubstr("can't listen on nonsense: malformed endpoint"));
  EXPECT_THAT(refusal([&] { make_zmq_hub(loop)->bind("tcp://192.0.2.1:5700", {}); }),
              HasSubstr("no such address on this machine"));
  EXPECT_THAT(refusal([&] { make_zmq_node(loop)->connect("nonsense", {}); }),
              HasSubstr("can't connect to nonsense: malformed endpoint"));
}

TEST(ZmqTransport, FullOutboundQueueIsReported) {
  ZmqOptions options;
  options.limits.max_outbound_messages = 16;
  options.limits.max_outbound_bytes = 64u << 20;
  HubEnd hub;
  NodeEnd node(options);
  hub.start();
  node.start(hub.endpoint);
  ASSERT_TRUE(node.log.wait_for(1));
  // 100 MB without a pause from one handler: more than every buffer on the way. Made beforehand:
  // handing over is then far quicker than sending, on any machine.
  std::vector<std::string> messages(100, std::string(1u << 20, 'x'));
  int accepted = 0;
  ErrorCode last = ErrorCode::kInternal;
  node.thread.call([&] {
    for (std::string& message : messages) {
      const Status status = node.node->send(std::move(message));
      status.ok() ? static_cast<void>(++accepted) : static_cast<void>(last = status.error().code);
    }
  });
  EXPECT_LT(accepted, 100);
  EXPECT_EQ(last, ErrorCode::kExhausted);
  EXPECT_TRUE(hub.log.wait_for(accepted));   // what was accepted arrives
  EXPECT_TRUE(node.send("room again").ok());
}

TEST(ZmqTransport, SlowLoopStopsTheReadingAndLosesNothing) {
  ZmqOptions slow;
  slow.limits.max_inbound_messages = 8;
  HubEnd hub(slow);
  NodeEnd node;
  hub.start();
  node.start(hub.endpoint);
  ASSERT_TRUE(node.log.wait_for(1));
  hub.thread.loop().post([] { std::this_thread::sleep_for(200ms); });
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(node.send(std::to_string(i)).ok());
  ASSERT_TRUE(hub.log.wait_for(1000));
  const auto seen = hub.log.entries();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(seen[i], std::to_string(i));
}

TEST(ZmqTransport, BeaconIsHeardWhileTheLoopIsBusy) {
  HubEnd hub;
  NodeEnd node;
  node.make_beacon = [] { return std::string("beat"); };
  hub.start();
  node.start(hub.endpoint);
  ASSERT_TRUE(node.log.wait_for(1));
  std::atomic<bool> release{false};
  node.thread.loop().post([&] {
    while (!release) std::this_thread::sleep_for(1ms);
  });
  const size_t before = hub.log.size();
  EXPECT_TRUE(hub.log.wait_for(before + 5));
  release = true;
}

TEST(ZmqTransport, SleepsWhileNothingHappens) {
  HubEnd hub;
  NodeEnd node;
  hub.start();
  node.start(hub.endpoint);
  ASSERT_TRUE(node.log.wait_for(1));
  ASSERT_TRUE(node.send("x").ok());
  ASSERT_TRUE(hub.log.wait_for(1));
  std::this_thread::sleep_for(300ms);
  const std::clock_t before = std::clock();   // CPU time of the process
  std::this_thread::sleep_for(500ms);
  const double used_ms = 1000.0 * (std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(used_ms, 50);   // a thread that polls would use ten times as much
}

}  // namespace
}  // namespace tandem::transport
