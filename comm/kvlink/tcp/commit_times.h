#pragma once
// The times in a Commit are ages. What it waits in queues and spends on the way is added to them,
// so that the receiver can use them although the clocks have no common origin.

#include <algorithm>
#include <chrono>
#include <optional>

#include "comm/runtime/clock.h"
#include "comm/wire/link.pb.h"

namespace tandem::kvlink {

inline void add_delay(wire::Commit& commit, Duration delay) {
  const int64_t us = std::chrono::duration_cast<std::chrono::microseconds>(delay).count();
  commit.set_last_chunk_us_ago(commit.last_chunk_us_ago() + us);
  if (commit.transfer_us() > 0) commit.set_transfer_us(commit.transfer_us() + us);
}

// How much longer a frame was on its way than the fastest one of its connection. Link thread only.
class WayTime {
 public:
  // sent_ns: by the sender's clock; 0 (an older sender): unknown, taken as no delay.
  Duration excess(int64_t sent_ns, TimePoint received) {
    if (sent_ns == 0) return Duration{};
    const int64_t way = received.time_since_epoch().count() - sent_ns;
    fastest_ = std::min(fastest_.value_or(way), way);
    return Duration{way - *fastest_};
  }

 private:
  std::optional<int64_t> fastest_;  // ns; holds the difference of the clocks too
};

}  // namespace tandem::kvlink
