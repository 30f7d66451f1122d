#pragma once
// Routing policies: pure functions from a view of the instances to a (prefill, decode) pair,
// one per file, chosen by name from one table.

#include <optional>
#include <string>
#include <vector>

#include "comm/runtime/result.h"
#include "comm/topology/membership.h"

namespace tandem::router {

struct InstanceView {
  std::string name;
  topology::Role role = topology::Role::kMixed;
  bool takes_work = false;        // ready; suspect, draining and dead ones don't
  uint32_t num_prefills = 0;      // requests whose prefill this instance holds
  uint32_t num_decodes = 0;       // requests granted to or decoding on it
  uint32_t total_blocks = 0;
  uint32_t leased_blocks = 0;
};

// Instances in name order. blocks_needed: the request's whole need.
struct View {
  std::vector<InstanceView> instances;
  uint32_t blocks_needed = 0;
  std::string fixed_prefill;      // a source lease to push from again; empty: free choice
};

struct Config {
  uint32_t max_prefills_per_instance = 2;
};

struct Route {
  std::string prefill;
  std::string decode;             // equal to prefill: it computes for itself
  auto operator<=>(const Route&) const = default;
};

// Nothing: no instance can take the request now.
using Policy = std::optional<Route> (*)(const View&, const Config&);

// Fewest prefills on the prefill side, fewest requests per block on the decode side; ties go to
// the first name. An instance of another role stands in when none of the right role takes work.
std::optional<Route> least_loaded(const View& view, const Config& config);

// kNotFound names the known policies.
Result<Policy> policy_by_name(const std::string& name);

}  // namespace tandem::router
