#pragma once
// ThreadLoop: an EventLoop run by the calling thread (condition variable, no polling).

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "comm/runtime/event_loop.h"

namespace tandem {

class ThreadLoop final : public EventLoop {
 public:
  TimePoint now() const override { return clock_.now(); }
  void post(Handler handler) override;
  TimerId after(Duration delay, Handler handler) override;
  void cancel(TimerId timer) override;

  // Runs handlers until stop(). Handlers posted before stop() still run. One thread only.
  void run();
  // Ends run() soon. Thread-safe.
  void stop();

 private:
  struct Timer {
    TimerId id;
    Handler handler;
  };
  bool run_due_timer();

  SystemClock clock_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Handler> posted_;                 // guarded by mutex_
  bool stop_ = false;                          // guarded by mutex_
  std::multimap<TimePoint, Timer> timers_;     // loop thread only
  TimerId next_timer_ = 1;                     // loop thread only
};

}  // namespace tandem
