#pragma once
// Time for deadlines: real time minus the lag of the own loop. A process that was stopped or
// starved must not declare everybody else dead when it comes back.

#include "comm/runtime/clock.h"

namespace tandem::topology {

class LagClock {
 public:
  explicit LagClock(Duration late_loop) : late_loop_(late_loop) {}

  // To be called by every periodic tick, planned `interval` apart. A tick later than
  // interval + late_loop takes its lag out of deadline time.
  void tick(TimePoint real_now, Duration interval) {
    if (last_tick_ != TimePoint{}) {
      const Duration late = real_now - last_tick_ - interval;
      if (late > late_loop_) lag_ += late;
    }
    last_tick_ = real_now;
  }

  // Deadline time. Never decreases: between ticks it stands still at most.
  TimePoint now(TimePoint real_now) const { return real_now - lag_; }
  Duration lag() const { return lag_; }

 private:
  Duration late_loop_;
  Duration lag_{};
  TimePoint last_tick_{};
};

}  // namespace tandem::topology
