#pragma once
// Every deadline of the protocol, in one struct (docs/PROTOCOL.md). Monotonic durations.

#include "comm/runtime/clock.h"

namespace tandem::topology {

struct Deadlines {
  Duration heartbeat = std::chrono::milliseconds(200);
  Duration suspect = std::chrono::seconds(1);           // silent: gets no new work
  Duration fenced = std::chrono::seconds(3);            // silent: its attempts are over
  Duration stalled_min = std::chrono::seconds(2);       // step age > max(this, factor * prediction)
  double stalled_factor = 3.0;
  Duration grant_ttl = std::chrono::seconds(5);
  Duration source_lease = std::chrono::seconds(10);
  Duration renew = std::chrono::milliseconds(500);      // also the coordinator's heartbeat
  Duration resend = std::chrono::milliseconds(500);     // unanswered messages go out again
  Duration coordinator_grace = std::chrono::seconds(2);
  Duration client_stall = std::chrono::seconds(30);
  Duration join = std::chrono::seconds(30);
  Duration drain = std::chrono::seconds(30);
  Duration request = std::chrono::seconds(600);
  Duration link_open = std::chrono::seconds(5);
  Duration link_closed = std::chrono::seconds(30);      // a failed pair stays closed that long
  Duration late_loop = std::chrono::milliseconds(500);  // a loop later than this extends deadlines
};

}  // namespace tandem::topology
