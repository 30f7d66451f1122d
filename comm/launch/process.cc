#include "comm/launch/process.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <thread>
#include <utility>

#include "comm/runtime/check.h"

namespace tandem::launch {

void die_with_parent(pid_t expected_parent) {
  CHECK_EQ(prctl(PR_SET_PDEATHSIG, SIGKILL), 0);
  // The parent may have died before the call above took effect.
  const pid_t parent = getppid();
  if (expected_parent != 0 ? parent != expected_parent : parent == 1) _exit(0);
}

void unblock_all_signals() {
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);   // async-signal-safe: usable after fork
}

// shared_ptr<Target>: a handler that is posted already may outlive the watcher.
struct SignalWatcher::Impl {
  struct Target {
    std::function<void(int)> handler;
    bool stopped = false;   // loop thread only
  };

  Impl(EventLoop& event_loop, std::function<void(int)> handler)
      : loop(event_loop), target(std::make_shared<Target>()) {
    target->handler = std::move(handler);
  }

  // The body of the waiting thread.
  void wait() {
    pollfd fds[2] = {{signal_fd, POLLIN, 0}, {stop_fd, POLLIN, 0}};
    for (;;) {
      if (poll(fds, 2, -1) < 0) {
        CHECK_EQ(errno, EINTR);
        continue;
      }
      if (fds[1].revents != 0) return;
      signalfd_siginfo info{};
      if (read(signal_fd, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) continue;
      loop.post([owner = target, signal = static_cast<int>(info.ssi_signo)] {
        if (!owner->stopped) owner->handler(signal);
      });
    }
  }

  EventLoop& loop;
  std::shared_ptr<Target> target;
  int signal_fd = -1;
  int stop_fd = -1;
  sigset_t old_mask;
  std::thread thread;
};

SignalWatcher::SignalWatcher(EventLoop& loop, std::initializer_list<int> signals,
                             std::function<void(int)> handler)
    : impl_(std::make_unique<Impl>(loop, std::move(handler))) {
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal : signals) CHECK_EQ(sigaddset(&mask, signal), 0);
  CHECK_EQ(pthread_sigmask(SIG_BLOCK, &mask, &impl_->old_mask), 0);
  impl_->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  impl_->stop_fd = eventfd(0, EFD_CLOEXEC);
  CHECK_GE(impl_->signal_fd, 0);
  CHECK_GE(impl_->stop_fd, 0);
  impl_->thread = std::thread([impl = impl_.get()] { impl->wait(); });
}

SignalWatcher::~SignalWatcher() {
  impl_->target->stopped = true;
  const uint64_t one = 1;
  CHECK_EQ(write(impl_->stop_fd, &one, sizeof one), static_cast<ssize_t>(sizeof one));
  impl_->thread.join();
  close(impl_->signal_fd);
  close(impl_->stop_fd);
  pthread_sigmask(SIG_SETMASK, &impl_->old_mask, nullptr);
}

}  // namespace tandem::launch
