#include "comm/runtime/thread_loop.h"

#include <algorithm>
#include <utility>

namespace tandem {

void ThreadLoop::post(Handler handler) {
  {
    std::lock_guard lock(mutex_);
    posted_.push_back(std::move(handler));
  }
  wake_.notify_one();
}

EventLoop::TimerId ThreadLoop::after(Duration delay, Handler handler) {
  const TimerId id = next_timer_++;
  timers_.emplace(now() + delay, Timer{id, std::move(handler)});
  return id;
}

void ThreadLoop::cancel(TimerId timer) {
  const auto found = std::find_if(timers_.begin(), timers_.end(),
                                  [&](const auto& entry) { return entry.second.id == timer; });
  if (found != timers_.end()) timers_.erase(found);
}

bool ThreadLoop::run_due_timer() {
  if (timers_.empty() || timers_.begin()->first > now()) return false;
  Handler handler = std::move(timers_.begin()->second.handler);
  timers_.erase(timers_.begin());
  handler();
  return true;
}

void ThreadLoop::run() {
  for (;;) {
    while (run_due_timer()) {
    }
    std::deque<Handler> batch;
    {
      std::unique_lock lock(mutex_);
      const auto ready = [&] { return stop_ || !posted_.empty(); };
      if (timers_.empty()) {
        wake_.wait(lock, ready);
      } else {
        wake_.wait_until(lock, timers_.begin()->first, ready);
      }
      batch.swap(posted_);
      if (batch.empty() && stop_) return;
    }
    for (Handler& handler : batch) handler();
  }
}

void ThreadLoop::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
}

}  // namespace tandem
