#pragma once
// Virtual time for the simulation: one queue of events for the whole cluster, and one NodeLoop per
// simulated process that can be stopped, continued and killed.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "comm/runtime/event_loop.h"

namespace tandem::sim {

class VirtualLoop final : public EventLoop, public Clock {
 public:
  TimePoint now() const override { return now_; }
  void post(Handler handler) override { after(Duration{0}, std::move(handler)); }
  TimerId after(Duration delay, Handler handler) override {
    const Key key{now_ + delay, next_++};
    queue_.emplace(key, std::move(handler));
    times_.emplace(key.second, key.first);
    return key.second;
  }
  void cancel(TimerId timer) override {
    const auto found = times_.find(timer);
    if (found == times_.end()) return;
    queue_.erase({found->second, timer});
    times_.erase(found);
  }

  // Runs the next event. False when there is none.
  bool step() {
    if (queue_.empty()) return false;
    auto node = queue_.extract(queue_.begin());
    times_.erase(node.key().second);
    now_ = node.key().first;
    ++num_events_;
    node.mapped()();
    return true;
  }
  uint64_t num_events() const { return num_events_; }
  TimePoint next_time() const { return queue_.empty() ? TimePoint::max() : queue_.begin()->first.first; }

 private:
  using Key = std::pair<TimePoint, TimerId>;
  TimePoint now_{std::chrono::hours(1)};
  TimerId next_ = 1;
  uint64_t num_events_ = 0;
  std::map<Key, Handler> queue_;
  std::map<TimerId, TimePoint> times_;
};

// The loop of one simulated process. Stopped (SIGSTOP), it runs nothing until it is continued.
class NodeLoop final : public EventLoop {
 public:
  explicit NodeLoop(VirtualLoop& loop) : loop_(loop) {}
  ~NodeLoop() override { *life_ = false; }

  TimePoint now() const override { return loop_.now(); }
  void post(Handler handler) override { after(Duration{0}, std::move(handler)); }
  TimerId after(Duration delay, Handler handler) override {
    return loop_.after(delay, [this, life = life_, handler = std::move(handler)]() mutable {
      if (!*life) return;
      run(std::move(handler));
    });
  }
  void cancel(TimerId timer) override { loop_.cancel(timer); }

  // Runs now, or when the process is continued.
  void run(Handler handler) {
    if (stopped_) {
      deferred_.push_back(std::move(handler));
    } else {
      handler();
    }
  }
  void stop() { stopped_ = true; }
  void go_on() {
    stopped_ = false;
    std::vector<Handler> deferred = std::move(deferred_);
    deferred_.clear();
    for (Handler& handler : deferred) post(std::move(handler));
  }
  bool stopped() const { return stopped_; }

 private:
  VirtualLoop& loop_;
  std::shared_ptr<bool> life_ = std::make_shared<bool>(true);
  bool stopped_ = false;
  std::vector<Handler> deferred_;
};

}  // namespace tandem::sim
