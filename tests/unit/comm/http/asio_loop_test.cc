#include "comm/http/asio_loop.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tandem::http {
namespace {
using namespace std::chrono_literals;

TEST(AsioLoop, RunsPostedHandlersInOrderAcrossThreads) {
  AsioLoop loop;
  std::vector<int> seen;
  std::thread poster([&] {
    for (int i = 0; i < 100; ++i) loop.post([&seen, i] { seen.push_back(i); });
    loop.stop();
  });
  loop.run();
  poster.join();
  ASSERT_EQ(seen.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[i], i);
}

// The loop posts "inner", then lets another thread post "outer".
TEST(AsioLoop, KeepsTheOrderBetweenItsOwnPostsAndOthers) {
  for (int round = 0; round < 50; ++round) {
    AsioLoop loop;
    std::vector<std::string> seen;
    std::promise<void> posted;
    std::thread other([&] {
      posted.get_future().wait();
      loop.post([&] { seen.push_back("outer"); });
      loop.stop();
    });
    loop.post([&] {
      loop.post([&] { seen.push_back("inner"); });
      posted.set_value();
      std::this_thread::sleep_for(100us);
    });
    loop.run();
    other.join();
    ASSERT_EQ(seen, (std::vector<std::string>{"inner", "outer"}));
  }
}

TEST(AsioLoop, FiresTimersInOrderAndForgetsCancelledOnes) {
  AsioLoop loop;
  std::vector<int> fired;
  const auto start = loop.now();
  loop.after(20ms, [&] { fired.push_back(3); loop.stop(); });
  const auto doomed = loop.after(1ms, [&] { fired.push_back(1); });
  loop.after(5ms, [&] { fired.push_back(2); });
  loop.cancel(doomed);
  loop.cancel(12345);   // unknown: ignored
  loop.run();
  EXPECT_EQ(fired, (std::vector<int>{2, 3}));
  EXPECT_GE(loop.now() - start, 20ms);
}

TEST(AsioLoop, TimerCancelledByAnotherDueTimerDoesNotFire) {
  AsioLoop loop;
  int fired = 0;
  EventLoop::TimerId second = 0;
  loop.post([&] {
    loop.after(1ms, [&] { ++fired; loop.cancel(second); });
    second = loop.after(1ms, [&] { ++fired; });
    std::this_thread::sleep_for(10ms);   // both are due now
    loop.after(20ms, [&] { loop.stop(); });
  });
  loop.run();
  EXPECT_EQ(fired, 1);
}

TEST(AsioLoop, DestroysWhatNeverRan) {
  auto owned = std::make_shared<int>(1);
  {
    AsioLoop loop;
    loop.post([owned] {});
    loop.after(1h, [owned] {});
    EXPECT_EQ(owned.use_count(), 3);
  }
  EXPECT_EQ(owned.use_count(), 1);
}

}  // namespace
}  // namespace tandem::http
