#include "comm/launch/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "comm/runtime/thread_loop.h"

namespace tandem::launch {
namespace {
using namespace std::chrono_literals;

TEST(SignalWatcher, PostsSignalsToTheLoop) {
  ThreadLoop loop;
  std::vector<int> seen;
  {
    SignalWatcher watcher(loop, {SIGTERM, SIGINT}, [&](int signal) {
      seen.push_back(signal);
      if (seen.size() == 1) kill(getpid(), SIGINT);
      if (seen.size() == 2) loop.stop();
    });
    kill(getpid(), SIGTERM);
    loop.run();
  }
  EXPECT_EQ(seen, (std::vector<int>{SIGTERM, SIGINT}));
}

TEST(SignalWatcher, RestoresTheMaskItFound) {
  ThreadLoop loop;
  { SignalWatcher watcher(loop, {SIGUSR1}, [](int) {}); }
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_FALSE(sigismember(&mask, SIGUSR1));
}

TEST(SignalWatcher, RunsNoHandlerAfterItsEnd) {
  ThreadLoop loop;
  int calls = 0;
  {
    SignalWatcher watcher(loop, {SIGUSR1}, [&](int) { ++calls; });
    kill(getpid(), SIGUSR1);
    std::this_thread::sleep_for(20ms);   // let the watcher's thread post it
  }
  loop.stop();
  loop.run();
  EXPECT_EQ(calls, 0);
}

// test ── child ── grandchild (die_with_parent). The grandchild holds the pipe's writing end: its
// end of file says that it is gone.
TEST(DieWithParent, KillsTheChildOfAKilledParent) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const pid_t middle = getpid();
    if (fork() == 0) {
      die_with_parent(middle);
      const char ready = 'r';
      if (write(pipe_fds[1], &ready, 1) != 1) _exit(1);
      for (;;) pause();
    }
    close(pipe_fds[1]);
    for (;;) pause();
  }
  close(pipe_fds[1]);
  char byte = 0;
  ASSERT_EQ(read(pipe_fds[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'r');
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(read(pipe_fds[0], &byte, 1), 0);   // blocks for ever if the grandchild lives on
  close(pipe_fds[0]);
}

TEST(DieWithParent, ExitsWhenTheParentIsGoneAlready) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    die_with_parent(/*expected_parent=*/999999999);
    _exit(7);   // not reached
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace tandem::launch
