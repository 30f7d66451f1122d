#include <functional>

#include "coordinator/router/policy.h"

namespace tandem::router {
namespace {

using topology::Role;

bool prefills(const InstanceView& i) { return i.role != Role::kDecode; }
bool decodes(const InstanceView& i) { return i.role != Role::kPrefill; }

// The candidate with the lowest load; the first of equals.
const InstanceView* least(const View& view,
                          const std::function<bool(const InstanceView&)>& candidate,
                          const std::function<double(const InstanceView&)>& load) {
  const InstanceView* best = nullptr;
  for (const InstanceView& i : view.instances) {
    if (!candidate(i)) continue;
    if (best == nullptr || load(i) < load(*best)) best = &i;
  }
  return best;
}

double decode_load(const InstanceView& i) {
  const double blocks = i.total_blocks == 0 ? 1.0 : i.total_blocks;
  return (i.num_decodes + 1) + static_cast<double>(i.leased_blocks) / blocks;
}

}  // namespace

std::optional<Route> least_loaded(const View& view, const Config& config) {
  const auto fits = [&](const InstanceView& i) {
    return i.takes_work && i.total_blocks >= view.blocks_needed;
  };
  const auto right_decode = [&](const InstanceView& i) { return fits(i) && decodes(i); };
  const InstanceView* decode = least(view, right_decode, decode_load);
  if (decode == nullptr) decode = least(view, fits, decode_load);
  if (decode == nullptr) return std::nullopt;
  if (!view.fixed_prefill.empty()) return Route{view.fixed_prefill, decode->name};

  const auto has_slot = [&](const InstanceView& i) {
    return i.num_prefills < config.max_prefills_per_instance;
  };
  if (decode->role == Role::kMixed) {
    // A mixed instance computes for itself: nothing has to move.
    if (!has_slot(*decode)) return std::nullopt;
    return Route{decode->name, decode->name};
  }
  const auto load = [](const InstanceView& i) { return static_cast<double>(i.num_prefills); };
  const InstanceView* prefill =
      least(view, [&](const InstanceView& i) { return fits(i) && prefills(i); }, load);
  if (prefill == nullptr) prefill = decode;  // nobody of that role: the decode side does both
  if (!has_slot(*prefill)) return std::nullopt;
  return Route{prefill->name, decode->name};
}

Result<Policy> policy_by_name(const std::string& name) {
  if (name == "least_loaded") return Policy{&least_loaded};
  return Error{ErrorCode::kNotFound, "unknown policy '" + name + "' (known: least_loaded)",
               "router.policy"};
}

}  // namespace tandem::router
