#pragma once
// When an instance whose process ended is started again (pure).

#include <optional>

#include "comm/runtime/clock.h"

namespace tandem::supervisor {

// A value type, one per instance.
class RestartDelay {
 public:
  // Delay before the next start. ready_at: when the dead process began to serve, if it did.
  // 0 for the first death and for any death more than 5 s after ready; early deaths in a row
  // double it from 250 ms up to 5 s.
  Duration after_exit(std::optional<TimePoint> ready_at, TimePoint died_at);

  // Early deaths in a row, the last one included.
  int early_deaths() const { return early_deaths_; }

 private:
  int early_deaths_ = 0;
};

}  // namespace tandem::supervisor
