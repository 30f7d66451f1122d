#pragma once
// The one table of configuration keys: it drives reading, checking, defaults and documentation.

#include <functional>
#include <string>
#include <vector>

#include "configs/schema/config.h"
#include "configs/schema/values.h"

namespace tandem::config {

struct Knob {
  std::string key;  // "kv.block_size"; in a pool "pools.*.threads"
  std::string type;
  std::string range;
  std::string meaning;
  // Text in place of a default value that depends on other keys; "" = the struct's initialiser.
  std::string derived_default;
  // Checks and stores a value. `role` matters for pool keys only.
  std::function<Status(Config&, Role role, const Scalar&)> set;
  // The value as it would be written in the file.
  std::function<std::string(const Config&, Role role)> get;

  bool is_pool() const { return key.starts_with("pools."); }
  // The key with the role in place of '*'.
  std::string key_for(Role role) const;
};

const std::vector<Knob>& all_knobs();

}  // namespace tandem::config
