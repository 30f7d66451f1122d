#pragma once
// Reads the YAML file into a Config. Strict: an unknown, duplicate, mistyped, out-of-range or
// not yet supported value is an error that says file:line, what is wrong and what to write.

#include <string>
#include <vector>

#include "comm/runtime/result.h"
#include "configs/schema/config.h"

namespace tandem::config {

// overrides: texts "a.b.c=value", applied after the file in order; a later one wins. A relative
// path in an override is relative to the working directory, in the file to the file's folder.
// The error's message is one line, ready for the user; its field is the key.
Result<Config> load_config(const std::string& file, const std::vector<std::string>& overrides);

// The same for text that is already in memory; file_name appears in messages and as base folder.
Result<Config> parse_config(const std::string& text, const std::string& file_name,
                            const std::vector<std::string>& overrides);

}  // namespace tandem::config
