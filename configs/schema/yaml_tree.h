#pragma once
// A YAML document as a plain tree with line numbers. The reader is narrower than YAML: one
// document of mappings and scalars; sequences, anchors, aliases and tags are refused, and a key
// that stands twice in one mapping is an error. Built from parse events, so nothing is converted.

#include <string>
#include <utility>
#include <vector>

#include "comm/runtime/result.h"

namespace tandem::config {

struct YamlNode {
  enum class Kind { kNull, kScalar, kMapping };
  Kind kind = Kind::kNull;
  int line = 0;  // 1-based; of a member, the line of its key
  std::string text;     // of a scalar, exactly as written (without quotes)
  bool quoted = false;  // scalar in quotes or a block scalar
  std::vector<std::pair<std::string, YamlNode>> members;  // of a mapping, in file order
};

// The error's message starts with "FILE:LINE: ". An empty document is an empty mapping.
Result<YamlNode> read_yaml(const std::string& text, const std::string& file_name);

}  // namespace tandem::config
