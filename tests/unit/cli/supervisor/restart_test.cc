#include "cli/supervisor/restart.h"

#include <gtest/gtest.h>

namespace tandem::supervisor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RestartDelay, DoublesForDeathsBeforeReadyUpToItsLimit) {
  RestartDelay restart;
  const TimePoint now{seconds(100)};
  std::vector<int64_t> delays_ms;
  for (int i = 0; i < 9; ++i) {
    delays_ms.push_back(restart.after_exit(std::nullopt, now) / milliseconds(1));
  }
  EXPECT_EQ(delays_ms,
            (std::vector<int64_t>{0, 250, 500, 1000, 2000, 4000, 5000, 5000, 5000}));
  EXPECT_EQ(restart.early_deaths(), 9);
}

TEST(RestartDelay, DeathSoonAfterReadyIsEarlyToo) {
  RestartDelay restart;
  const TimePoint ready{seconds(100)};
  EXPECT_EQ(restart.after_exit(ready, ready + seconds(5)), Duration(0));
  EXPECT_EQ(restart.after_exit(ready, ready + seconds(5)), milliseconds(250));
}

TEST(RestartDelay, LongLifeForgetsEarlierDeaths) {
  RestartDelay restart;
  const TimePoint ready{seconds(100)};
  for (int i = 0; i < 4; ++i) (void)restart.after_exit(ready, ready);
  EXPECT_EQ(restart.after_exit(ready, ready + seconds(6)), Duration(0));
  EXPECT_EQ(restart.early_deaths(), 0);
  EXPECT_EQ(restart.after_exit(ready, ready), Duration(0));
}

}  // namespace
}  // namespace tandem::supervisor
