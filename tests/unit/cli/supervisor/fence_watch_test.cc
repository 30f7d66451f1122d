#include "cli/supervisor/fence_watch.h"

#include <gtest/gtest.h>

namespace tandem::supervisor {
namespace {

using std::chrono::seconds;

class FenceWatchTest : public testing::Test {
 protected:
  // Whether "decode-0" is overdue at second t, seen in `state` under mpirun `launcher`.
  bool overdue(int t, const std::string& state, int64_t launcher, int64_t running = 70) {
    return !watch_.observe({{"decode-0", state, 71, launcher}}, {{"decode-0", running}},
                           TimePoint(seconds(t))).empty();
  }
  FenceWatch watch_{seconds(3)};
};

TEST_F(FenceWatchTest, FindsAProcessThatStaysDead) {
  EXPECT_FALSE(overdue(0, "suspect", 70));
  EXPECT_FALSE(overdue(1, "dead", 70));
  EXPECT_FALSE(overdue(3, "dead", 70));
  EXPECT_TRUE(overdue(4, "dead", 70));
}

TEST_F(FenceWatchTest, StartsAnewWhenItCameBack) {
  EXPECT_FALSE(overdue(0, "dead", 70));
  EXPECT_FALSE(overdue(2, "ready", 70));
  EXPECT_FALSE(overdue(3, "dead", 70));
  EXPECT_FALSE(overdue(5, "dead", 70));
  EXPECT_TRUE(overdue(6, "dead", 70));
}

// The coordinator keeps the dead entry until the new process has said hello.
TEST_F(FenceWatchTest, SparesTheSuccessorOfADeadProcess) {
  EXPECT_FALSE(overdue(0, "dead", 70));
  EXPECT_FALSE(overdue(4, "dead", 70, 90));
  EXPECT_FALSE(overdue(9, "dead", 70, 90));
}

TEST_F(FenceWatchTest, SparesAnInstanceThatIsNotRunning) {
  EXPECT_TRUE(watch_.observe({{"x", "dead", 1, 2}}, {}, TimePoint(seconds(0))).empty());
  EXPECT_TRUE(watch_.observe({{"x", "dead", 1, 2}}, {}, TimePoint(seconds(9))).empty());
}

}  // namespace
}  // namespace tandem::supervisor
