#pragma once
// Text made from the table of knobs: the reference of all keys, and a resolved configuration.

#include <string>
#include <vector>

#include "configs/schema/config.h"

namespace tandem::config {

struct KnobInfo {
  std::string key;            // "kv.block_size"; "pools.*.threads" stands for every role
  std::string type;           // "integer", "size", "duration", …
  std::string default_value;  // as written in the file; "(required)" if there is none
  std::string range;
  std::string meaning;
};
// Every key of the file, in the order of the reference.
std::vector<KnobInfo> list_knobs();

// All keys for a reader: one paragraph each.
std::string reference_text();

// The configuration as YAML with every key written out; loads to the same Config.
std::string resolved_text(const Config& config);

}  // namespace tandem::config
