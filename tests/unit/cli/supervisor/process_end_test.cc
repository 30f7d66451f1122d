#include "cli/supervisor/process_end.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace tandem::supervisor {
namespace {

// A process that does nothing until it is killed.
pid_t sleeper() {
  const pid_t pid = fork();
  if (pid == 0) {
    for (;;) pause();
  }
  return pid;
}

TEST(ProcessEnd, BecomesReadableWhenTheProcessEnds) {
  const pid_t pid = sleeper();
  const ProcessEnd end(pid);
  EXPECT_FALSE(end.ended());
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  pollfd file{end.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&file, 1, 10'000), 1);
  EXPECT_TRUE(end.ended());  // a zombie still
  waitpid(pid, nullptr, 0);
  EXPECT_TRUE(end.ended());
}

TEST(ProcessEnd, AProcessThatIsGoneHasEnded) {
  const pid_t pid = sleeper();
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  const ProcessEnd end(pid);
  EXPECT_TRUE(end.ended());
}

TEST(ProcessEnd, AMovedFromHandleFollowsNobody) {
  const pid_t pid = sleeper();
  ProcessEnd first(pid);
  const ProcessEnd second(std::move(first));
  EXPECT_EQ(first.fd(), -1);
  EXPECT_FALSE(second.ended());
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_TRUE(second.ended());
}

}  // namespace
}  // namespace tandem::supervisor
