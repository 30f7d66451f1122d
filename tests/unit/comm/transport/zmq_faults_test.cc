// What both ends see when the other one goes away: stopped, killed, restarted, or foreign.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <set>
#include <zmq.hpp>

#include "cut_proxy.h"
#include "zmq_ends.h"

namespace tandem::transport {
namespace {
using namespace std::chrono_literals;
using testing::ElementsAre;

TEST(ZmqFaults, HubRestartIsADisconnectAndAReconnect) {
  HubEnd hub;
  NodeEnd node;
  hub.start();
  const std::string endpoint = hub.endpoint;
  node.start(endpoint);
  ASSERT_TRUE(node.log.wait_for(1));
  hub.stop();
  ASSERT_TRUE(node.log.wait_for(2));
  EXPECT_FALSE(node.send("nobody there").ok());
  hub.start(endpoint);
  ASSERT_TRUE(node.log.wait_for(3));
  ASSERT_TRUE(node.send("again").ok());
  ASSERT_TRUE(hub.log.wait_for(1));
  ASSERT_TRUE(hub.send("welcome").ok());
  ASSERT_TRUE(node.log.wait_for(4));
  EXPECT_THAT(node.log.entries(), ElementsAre("+up", "-down", "+up", "welcome"));
  EXPECT_THAT(hub.log.entries(), ElementsAre("again"));
}

TEST(ZmqFaults, ClosedNodeIsGoneAfterWhatItSent) {
  HubEnd hub;
  hub.start();
  {
    NodeEnd node;
    node.start(hub.endpoint);
    ASSERT_TRUE(node.log.wait_for(1));
    ASSERT_TRUE(node.send("bye").ok());
    ASSERT_TRUE(hub.log.wait_for(1));
  }
  ASSERT_TRUE(hub.log.wait_for(2));
  EXPECT_THAT(hub.log.entries(), ElementsAre("bye", "-gone"));
  EXPECT_TRUE(hub.send("to nobody").ok());
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(hub.log.size(), 2u);   // told once
}

// The other process: connects to the endpoint it reads from the pipe, says hello on each connect.
[[noreturn]] void run_node_process(int endpoint_pipe) {
  char text[128] = {};
  if (read(endpoint_pipe, text, sizeof text - 1) <= 0) _exit(1);
  ThreadLoop loop;
  std::unique_ptr<NodeTransport> node = make_zmq_node(loop);
  node->connect(text, {.on_connected = [&] { static_cast<void>(node->send("hello")); }});
  loop.run();
  _exit(0);
}

TEST(ZmqFaults, StoppedAndKilledProcessesAreNoticed) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t child = fork();   // before this process has threads
  ASSERT_GE(child, 0);
  if (child == 0) run_node_process(fds[0]);
  {
    HubEnd hub;
    hub.start();
    ASSERT_GT(write(fds[1], hub.endpoint.data(), hub.endpoint.size()), 0);
    ASSERT_TRUE(hub.log.wait_for(1));
    const uint64_t first = hub.last_peer;

    kill(child, SIGSTOP);
    const auto stopped = std::chrono::steady_clock::now();
    ASSERT_TRUE(hub.log.wait_for(2));
    EXPECT_LT(std::chrono::steady_clock::now() - stopped, 3s);   // 0.8 s promised, with slack

    kill(child, SIGCONT);
    ASSERT_TRUE(hub.log.wait_for(3));
    EXPECT_NE(hub.last_peer, first);

    kill(child, SIGKILL);
    const auto killed = std::chrono::steady_clock::now();
    ASSERT_TRUE(hub.log.wait_for(4));
    EXPECT_LT(std::chrono::steady_clock::now() - killed, 1s);   // the kernel closes its socket
    EXPECT_THAT(hub.log.entries(), ElementsAre("hello", "-gone", "hello", "-gone"));
  }
  waitpid(child, nullptr, 0);
  close(fds[0]);
  close(fds[1]);
}

TEST(ZmqFaults, PeerThatDoesNotReadIsCutOffAndComesBack) {
  ZmqOptions small;
  small.limits.max_outbound_messages = 64;
  small.limits.max_inbound_messages = 4;
  HubEnd hub(small);
  NodeEnd node(small);
  hub.start();
  node.start(hub.endpoint);
  ASSERT_TRUE(node.log.wait_for(1));
  ASSERT_TRUE(node.send("hello").ok());
  ASSERT_TRUE(hub.log.wait_for(1));

  std::atomic<bool> release{false};
  node.thread.loop().post([&] {
    while (!release) std::this_thread::sleep_for(1ms);
  });
  for (int i = 0; i < 100000 && hub.log.size() < 2; ++i) {
    static_cast<void>(hub.send(std::string(100000, 'x')));
  }
  ASSERT_TRUE(hub.log.wait_for(2));
  EXPECT_EQ(hub.log.entries()[1], "-gone");
  release = true;
  for (int i = 0; i < 2000; ++i) {   // -down and +up stand behind what it had not read
    const auto entries = node.log.entries();
    if (entries.back() == "+up" && entries.size() > 1) break;
    std::this_thread::sleep_for(5ms);
  }
  const auto entries = node.log.entries();
  ASSERT_GT(entries.size(), 2u);
  EXPECT_EQ(entries[entries.size() - 2], "-down");
  EXPECT_EQ(entries.back(), "+up");
  ASSERT_TRUE(node.send("back").ok());
  ASSERT_TRUE(hub.log.wait_for(3));
  EXPECT_EQ(hub.log.entries()[2], "back");
}

// The node numbers its connections ("c") and its messages on each ("i"), from 0, and sends "c:i";
// the hub sends each one back. Neither may ever see a number of another connection, or a gap.
TEST(ZmqFaults, CutConnectionsLoseASuffixAndNeverMix) {
  LoopThread hub_thread;
  std::unique_ptr<HubTransport> hub;
  std::string endpoint;
  std::map<uint64_t, std::vector<std::string>> seen;   // by peer; hub's loop thread
  std::map<uint64_t, int> gone;
  int after_gone = 0;
  hub_thread.call([&] {
    hub = make_zmq_hub(hub_thread.loop());
    endpoint = hub->bind("tcp://127.0.0.1:0", {.on_message =
                                                   [&](PeerId peer, std::string bytes) {
                                                     after_gone += gone.contains(peer.value);
                                                     seen[peer.value].push_back(bytes);
                                                     static_cast<void>(hub->send(peer, bytes));
                                                   },
                                               .on_peer_gone = [&](PeerId peer) {
                                                 ++gone[peer.value];
                                               }});
  });
  CutProxy proxy(static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));

  LoopThread node_thread;
  std::unique_ptr<NodeTransport> node;
  int connection = -1;   // node's loop thread, as all of these
  int next = 0;
  int next_back = 0;
  int wrong = 0;
  std::atomic<int> ups{0};
  std::atomic<int> backs{0};
  node_thread.call([&] {
    node = make_zmq_node(node_thread.loop());
    node->connect(proxy.endpoint(), {.on_connected =
                                         [&] {
                                           ++connection;
                                           next = next_back = 0;
                                           ++ups;
                                         },
                                     .on_message = [&](std::string bytes) {
                                       const std::string due = std::to_string(connection) + ":" +
                                                               std::to_string(next_back++);
                                       wrong += bytes != due;
                                       ++backs;
                                     }});
  });
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (ups <= round && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(1ms);
    }
    ASSERT_GT(ups, round);
    const int backs_before = backs;
    for (int burst = 0; burst < 20; ++burst) {
      if (burst == 15) {
        // Something came back on this connection before it is cut, however slow the machine is.
        while (backs == backs_before && std::chrono::steady_clock::now() < deadline) {
          std::this_thread::sleep_for(1ms);
        }
        proxy.cut();
      }
      std::this_thread::sleep_for(2ms);
      node_thread.call([&] {
        for (int i = 0; i < 50; ++i) {
          const std::string bytes = std::to_string(connection) + ":" + std::to_string(next);
          if (node->send(bytes).ok()) ++next;
        }
      });
    }
  }
  std::this_thread::sleep_for(300ms);
  node_thread.call([&] { node.reset(); });
  for (int i = 0; i < 1000; ++i) {
    bool all_gone = false;
    hub_thread.call([&] { all_gone = gone.size() == seen.size(); });
    if (all_gone) break;
    std::this_thread::sleep_for(5ms);
  }
  hub_thread.call([&] { hub.reset(); });

  EXPECT_EQ(wrong, 0);
  EXPECT_GT(backs, 0);
  EXPECT_EQ(after_gone, 0);
  EXPECT_GE(seen.size(), static_cast<size_t>(kRounds) - 1);
  std::set<std::string> connections;
  for (const auto& [peer, messages] : seen) {
    EXPECT_EQ(gone[peer], 1);
    const std::string number = messages[0].substr(0, messages[0].find(':'));
    EXPECT_TRUE(connections.insert(number).second) << "two peers for connection " << number;
    for (size_t i = 0; i < messages.size(); ++i) {
      ASSERT_EQ(messages[i], number + ":" + std::to_string(i));
    }
  }
}

TEST(ZmqFaults, ForeignBytesAreIgnored) {
  HubEnd hub;
  NodeEnd node;
  hub.start();
  zmq::context_t context;
  zmq::socket_t stranger(context, zmq::socket_type::dealer);
  stranger.set(zmq::sockopt::linger, 0);
  stranger.connect(hub.endpoint);
  for (const std::string_view bytes : {"", "x", "TDM", "GET / HTTP/1.1", "TDM\x09" "1234payload"}) {
    stranger.send(zmq::buffer(bytes), zmq::send_flags::none);
  }
  stranger.send(zmq::str_buffer("TDM"), zmq::send_flags::sndmore);
  stranger.send(zmq::str_buffer("two parts"), zmq::send_flags::none);
  node.start(hub.endpoint);
  ASSERT_TRUE(node.log.wait_for(1));
  ASSERT_TRUE(node.send("mine").ok());
  ASSERT_TRUE(hub.log.wait_for(1));
  EXPECT_THAT(hub.log.entries(), ElementsAre("mine"));
}

}  // namespace
}  // namespace tandem::transport
