#pragma once
// EventLoop: the one thread that owns all mutable protocol state of a process.
// Implementations: ThreadLoop (below), the gateway's Asio loop, the simulation's virtual loop.

#include <cstdint>
#include <functional>

#include "comm/runtime/clock.h"

namespace tandem {

class EventLoop {
 public:
  using Handler = std::function<void()>;
  using TimerId = uint64_t;

  virtual ~EventLoop() = default;
  virtual TimePoint now() const = 0;
  // Runs handler on the loop thread, after all handlers posted before it. Thread-safe.
  virtual void post(Handler handler) = 0;
  // Runs handler once, not before `delay` has passed. Loop thread only. Ids are never reused.
  virtual TimerId after(Duration delay, Handler handler) = 0;
  // Forgets a timer; unknown or fired ids are ignored. Loop thread only.
  virtual void cancel(TimerId timer) = 0;
};

}  // namespace tandem
