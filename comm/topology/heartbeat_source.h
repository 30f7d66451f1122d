#pragma once
// HeartbeatSource: what a worker's loop knows, readable by the I/O thread, so that a busy loop
// stays audible and a stuck plan becomes visible. Thread-safe.

#include <mutex>
#include <string>

#include "comm/runtime/clock.h"
#include "comm/runtime/ids.h"
#include "comm/wire/control.pb.h"

namespace tandem::topology {

class HeartbeatSource {
 public:
  explicit HeartbeatSource(const Clock& clock) : clock_(clock) {}

  // Loop thread. coordinator 0: not joined, no beats.
  void identify(Incarnation self, Incarnation coordinator);
  void update(const wire::Heartbeat& beat);
  void plan_started(TimePoint at, Duration predicted);
  void plan_finished();

  // An encoded Envelope, or an empty string while not joined. Any thread.
  std::string make() const;

  // Whether a plan runs for longer than max(min, factor x its prediction). Any thread.
  bool stalled(Duration min, double factor) const;

 private:
  const Clock& clock_;
  mutable std::mutex mutex_;
  Incarnation self_;
  Incarnation coordinator_;
  wire::Heartbeat beat_;
  bool plan_running_ = false;
  TimePoint plan_started_{};
  Duration plan_predicted_{};
};

}  // namespace tandem::topology
