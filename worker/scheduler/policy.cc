#include "worker/scheduler/policy.h"

#include <algorithm>
#include <array>

#include "worker/scheduler/continuous.h"
#include "worker/scheduler/static.h"

namespace tandem::scheduler {
namespace {

constexpr std::array<Policy, 2> kPolicies{{
    {"continuous", "sequences join and leave at every step; prefill in chunks beside decodes",
     plan_continuous},
    {"static", "a batch runs until its last sequence ends; for comparison only",
     plan_static},
}};

}  // namespace

std::span<const Policy> policies() { return kPolicies; }

const Policy* find_policy(std::string_view name) {
  const auto found = std::ranges::find(kPolicies, name, &Policy::name);
  return found == kPolicies.end() ? nullptr : &*found;
}

}  // namespace tandem::scheduler
