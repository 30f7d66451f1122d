#pragma once
// Monotonic time. State machines never look at the wall clock; the simulation brings its own Clock.

#include <chrono>

namespace tandem {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

class Clock {
 public:
  virtual ~Clock() = default;
  // Never decreases. Thread-safe.
  virtual TimePoint now() const = 0;
};

// The machine's monotonic clock. Stateless; thread-safe.
class SystemClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

inline double to_seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace tandem
