#pragma once
// The batching policies by name. Each is a pure, deterministic function: the leader calls it, the
// followers execute what it answered.
//
// Every policy holds these rules:
//   - a chunk has at most prefill_chunk positions and lies inside one range of its sequence;
//   - a solo sequence is alone in its plan, runs at most every other plan while others wait (two
//     solo sequences: two of three), and is never starved;
//   - nobody starves: what waits runs after finitely many plans.

#include <span>
#include <string_view>

#include "worker/scheduler/view.h"

namespace tandem::scheduler {

// Requires: the conditions stated at View and Config (checked).
using PlanFunction = Plan (*)(const View&, const Config&);

struct Policy {
  std::string_view name;
  std::string_view summary;
  PlanFunction plan;
};

// The default policy first.
std::span<const Policy> policies();

// nullptr for an unknown name.
const Policy* find_policy(std::string_view name);

}  // namespace tandem::scheduler
