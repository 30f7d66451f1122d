#include "cli/supervisor/restart.h"

#include <algorithm>

namespace tandem::supervisor {
namespace {

constexpr Duration kEarly = std::chrono::seconds(5);
constexpr Duration kFirstDelay = std::chrono::milliseconds(250);
constexpr Duration kMaxDelay = std::chrono::seconds(5);

}  // namespace

Duration RestartDelay::after_exit(std::optional<TimePoint> ready_at, TimePoint died_at) {
  const bool is_early = !ready_at.has_value() || died_at - *ready_at <= kEarly;
  if (!is_early) {
    early_deaths_ = 0;
    return Duration(0);
  }
  ++early_deaths_;
  if (early_deaths_ == 1) return Duration(0);
  Duration delay = kFirstDelay;
  for (int i = 2; i < early_deaths_ && delay < kMaxDelay; ++i) delay *= 2;
  return std::min(delay, kMaxDelay);
}

}  // namespace tandem::supervisor
