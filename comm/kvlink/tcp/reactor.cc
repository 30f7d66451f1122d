#include "comm/kvlink/tcp/reactor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "comm/runtime/check.h"
#include "comm/runtime/result.h"

namespace tandem::kvlink {
namespace {

constexpr int kMaxEventsPerRound = 64;

}  // namespace

Reactor::Reactor()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!epoll_.valid() || !wake_.valid()) {
    throw StartupError(std::string("kv link: no file descriptors left (") + std::strerror(errno) +
                       "); raise the limit of open files");
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake_.get();
  CHECK_EQ(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event), 0);
}

void Reactor::post(Closure closure) {
  bool was_empty = false;
  {
    std::lock_guard lock(mutex_);
    was_empty = posted_.empty();
    posted_.push_back(std::move(closure));
  }
  if (was_empty) wake();
}

void Reactor::stop() {
  stop_.store(true);
  wake();
}

void Reactor::wake() {
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));  // full = already awake
}

void Reactor::add(int fd, uint32_t epoll_events, Pollable& pollable) {
  CHECK(pollables_.emplace(fd, &pollable).second);
  epoll_event event{};
  event.events = epoll_events;
  event.data.fd = fd;
  CHECK_EQ(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event), 0);
}

void Reactor::modify(int fd, uint32_t epoll_events) {
  epoll_event event{};
  event.events = epoll_events;
  event.data.fd = fd;
  CHECK_EQ(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event), 0);
}

void Reactor::remove(int fd) {
  CHECK_EQ(pollables_.erase(fd), 1u);
  CHECK_EQ(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr), 0);
}

int Reactor::timeout_ms() const {
  std::optional<TimePoint> earliest;
  for (const auto& [fd, pollable] : pollables_) {
    const auto deadline = pollable->deadline();
    if (deadline && (!earliest || *deadline < *earliest)) earliest = deadline;
  }
  if (!earliest) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*earliest - now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

void Reactor::run_posted() {
  std::vector<Closure> batch;
  {
    std::lock_guard lock(mutex_);
    batch.swap(posted_);
  }
  for (Closure& closure : batch) closure();
}

void Reactor::run_deadlines() {
  std::vector<int> due;
  const TimePoint current = now();
  for (const auto& [fd, pollable] : pollables_) {
    const auto deadline = pollable->deadline();
    if (deadline && *deadline <= current) due.push_back(fd);
  }
  for (const int fd : due) {
    const auto found = pollables_.find(fd);
    if (found != pollables_.end()) found->second->on_deadline();
  }
}

void Reactor::run() {
  std::array<epoll_event, kMaxEventsPerRound> events;
  while (!stop_.load()) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), kMaxEventsPerRound, timeout_ms());
    CHECK(count >= 0 || errno == EINTR);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == wake_.get()) {
        uint64_t ignored = 0;
        (void)!::read(wake_.get(), &ignored, sizeof(ignored));
        continue;
      }
      const auto found = pollables_.find(fd);
      if (found != pollables_.end()) found->second->on_ready(events[i].events);
    }
    run_posted();
    run_deadlines();
  }
  run_posted();
}

}  // namespace tandem::kvlink
