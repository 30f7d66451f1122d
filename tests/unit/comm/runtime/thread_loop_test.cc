#include "comm/runtime/thread_loop.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tandem {
namespace {
using namespace std::chrono_literals;

TEST(ThreadLoop, RunsPostedHandlersInOrderAcrossThreads) {
  ThreadLoop loop;
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

TEST(ThreadLoop, CancelledTimersDoNotFire) {
  ThreadLoop loop;
  std::vector<int> fired;
  const auto doomed = loop.after(1ms, [&] { fired.push_back(1); });
  loop.after(5ms, [&] { fired.push_back(2); loop.stop(); });
  loop.cancel(doomed);
  loop.run();
  EXPECT_EQ(fired, std::vector<int>{2});
}

}  // namespace
}  // namespace tandem
