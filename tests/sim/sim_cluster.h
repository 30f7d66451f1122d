#pragma once
// One simulated cluster: the real coordinator and the real engines, in one thread, with virtual
// time and faults drawn from one seed. The same seed replays exactly.

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/fault_points.h"

namespace tandem::sim {

struct SeedOptions {
  uint64_t seed = 0;
  std::optional<FaultPoint> target;   // dies there, once, beside the seed's other faults
  bool trace = false;                 // keep the whole timeline
};

struct SeedReport {
  bool ok = true;
  std::string failure;                // the first broken promise
  std::string timeline;               // with trace
  std::set<FaultPoint> hit;           // targets that were reached
  uint64_t num_events = 0;
  uint32_t num_requests = 0;
  uint32_t num_ok = 0;
  uint32_t num_failovers = 0;
  std::string shape;                  // e.g. "2 prefill, 1 decode"
};

SeedReport run_seed(const SeedOptions& options);

}  // namespace tandem::sim
