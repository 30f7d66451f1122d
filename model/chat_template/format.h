#pragma once
// Values as text: Python's str() and repr(), and JSON.

#include <string>

#include "model/chat_template/text.h"
#include "model/chat_template/value.h"

namespace tandem::chat_template {

// All three stop with TemplateError (kLimit) beyond max_bytes or kMaxFormatDepth, so that a value
// that is shared many times can't grow without bound. Strings inside keep their origin.
inline constexpr int kMaxFormatDepth = 100;

// str(value); undefined is empty.
Text str_text(const Value& value, uint64_t max_bytes);
// repr(value): strings in quotes.
Text repr_text(const Value& value, uint64_t max_bytes);

struct JsonStyle {
  int indent = -1;  // < 0: one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
  bool ascii_only = false;
};
// json.dumps without HTML escaping. TemplateError (kRuntime) for what JSON has no form for.
Text json_text(const Value& value, const JsonStyle& style, uint64_t max_bytes);

// Python's shortest spelling of a float: 2.0, 1e+20, 0.1, inf.
std::string real_spelling(double value);

}  // namespace tandem::chat_template
