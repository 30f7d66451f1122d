#include "cli/supervisor/child.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace tandem::supervisor {
namespace {

using std::chrono::milliseconds;

// Polls until the child ends; fails the test after 10 s.
int exit_of(Child& child) {
  for (int i = 0; i < 1000; ++i) {
    if (const auto status = child.poll_exit()) return *status;
    std::this_thread::sleep_for(milliseconds(10));
  }
  ADD_FAILURE() << "the child did not end";
  child.signal(SIGKILL);
  return -1;
}

Result<Child> shell(const std::string& script, std::vector<std::string> environment = {}) {
  return Child::start({{"sh", "-c", script}, std::move(environment)});
}

TEST(Child, GivesWholeLinesAndTheExitStatus) {
  Result<Child> child = shell("printf 'a\\nb'; printf 'oops\\n' >&2; exit 7");
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(exit_of(*child), 7);
  EXPECT_EQ(child->read_stdout(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(child->read_stderr(), std::vector<std::string>{"oops"});
  EXPECT_EQ(child->stdout_fd(), -1);
}

TEST(Child, DeathBySignalIs128AndItsNumber) {
  Result<Child> child = shell("kill -9 $$");
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(exit_of(*child), 128 + SIGKILL);
}

TEST(Child, EnvironmentIsAddedAndReplaced) {
  ASSERT_EQ(setenv("TANDEM_TEST_KEPT", "kept", 1), 0);
  ASSERT_EQ(setenv("TANDEM_TEST_OLD", "old", 1), 0);
  Result<Child> child =
      shell("echo $TANDEM_TEST_KEPT $TANDEM_TEST_OLD", {"TANDEM_TEST_OLD=new"});
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(exit_of(*child), 0);
  EXPECT_EQ(child->read_stdout(), std::vector<std::string>{"kept new"});
}

TEST(Child, LeadsItsOwnSession) {
  Result<Child> child = shell("cut -d' ' -f6 /proc/$$/stat");
  ASSERT_TRUE(child.ok());
  const std::string own = std::to_string(child->pid());
  EXPECT_EQ(exit_of(*child), 0);
  EXPECT_EQ(child->read_stdout(), std::vector<std::string>{own});
}

TEST(Child, MissingProgramIsAnError) {
  const Result<Child> child = Child::start({{"/no/such/program"}, {}});
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(child.error().message, "/no/such/program: No such file or directory");
}

// A marked grandchild dies with the process that started it.
//   test -> middle (fork, starts a Child, is killed) -> sleep
TEST(Child, DiesWithItsParent) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t middle = fork();
  if (middle == 0) {
    Result<Child> child = Child::start({{"sleep", "60"}, {}});
    const pid_t pid = child.ok() ? child->pid() : -1;
    (void)!write(ends[1], &pid, sizeof pid);
    pause();
    _exit(0);
  }
  pid_t grandchild = -1;
  ASSERT_EQ(read(ends[0], &grandchild, sizeof grandchild),
            static_cast<ssize_t>(sizeof grandchild));
  ASSERT_GT(grandchild, 0);
  EXPECT_EQ(kill(grandchild, 0), 0);
  kill(middle, SIGKILL);
  bool is_gone = false;
  for (int i = 0; i < 500 && !is_gone; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
    const std::string stat = "/proc/" + std::to_string(grandchild) + "/exe";
    char target[64];
    is_gone = readlink(stat.c_str(), target, sizeof target) < 0;  // gone, or a zombie of init
  }
  EXPECT_TRUE(is_gone);
}

}  // namespace
}  // namespace tandem::supervisor
