#include "comm/runtime/bounded_queue.h"

#include <gtest/gtest.h>

#include <thread>

namespace tandem {
namespace {

TEST(BoundedQueue, RefusesWhenFullAndLeavesTheItem) {
  BoundedQueue<std::string> queue(1);
  EXPECT_TRUE(queue.push("a"));
  std::string item = "b";
  EXPECT_FALSE(queue.push(item));
  EXPECT_EQ(item, "b");
  EXPECT_EQ(queue.try_pop(), "a");
  EXPECT_TRUE(queue.push(item));
}

TEST(BoundedQueue, CloseWakesAWaiterAndDrainsWhatIsLeft) {
  BoundedQueue<int> queue(4);
  EXPECT_TRUE(queue.push(7));
  std::thread closer([&] { queue.close(); });
  EXPECT_EQ(queue.pop(), 7);
  EXPECT_EQ(queue.pop(), std::nullopt);
  closer.join();
  EXPECT_FALSE(queue.push(8));
}

}  // namespace
}  // namespace tandem
