#pragma once
// Every deadline of the cluster, in one struct: nothing else in the code may wait for a time of
// its own. All are monotonic durations. The YAML section `deadlines:` mirrors it, key by key.

#include "comm/runtime/clock.h"

namespace tandem::config {

struct Deadlines {
  // Liveness of an instance, seen by the coordinator.
  Duration heartbeat = std::chrono::milliseconds(200);      // period of a worker's heartbeats
  Duration suspect = std::chrono::seconds(1);               // silent so long: no new work
  Duration fenced = std::chrono::seconds(3);                // silent so long: fenced
  Duration stalled_min = std::chrono::seconds(2);           // a step older than
  double stalled_factor = 3;                                // max(min, factor x prediction): fenced
  Duration join = std::chrono::seconds(30);                 // start of a worker to its Welcome
  Duration coordinator_grace = std::chrono::seconds(2);     // worker keeps its work without one

  // Hand-over.
  Duration grant_ttl = std::chrono::seconds(5);             // a grant without Renew or frames
  Duration source_lease = std::chrono::seconds(10);         // prompt blocks kept at the prefill side
  Duration renew = std::chrono::milliseconds(500);          // period of Renew, heard by all
  Duration resend = std::chrono::milliseconds(500);         // unanswered idempotent message again
  Duration link_open = std::chrono::seconds(5);             // connect and hello of a KV link
  Duration link_closed = std::chrono::seconds(30);          // a failed pair stays closed

  // Requests and clients.
  Duration request = std::chrono::seconds(600);             // a request as a whole
  Duration client_stall = std::chrono::seconds(30);         // a client that reads nothing
  Duration http_header = std::chrono::seconds(10);          // reading one request's head and body
  Duration http_idle = std::chrono::seconds(60);            // a kept-alive connection without one

  // Processes.
  Duration drain = std::chrono::seconds(30);                // running requests at shutdown
  Duration loop_lag = std::chrono::milliseconds(500);       // a loop later than this extends all
};

}  // namespace tandem::config
