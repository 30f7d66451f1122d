#pragma once
// JSON to the values of the template language.

#include <nlohmann/json_fwd.hpp>

#include "model/chat_template/value.h"

namespace tandem::chat_template {

// Strings and keys get this origin. Numbers beyond 64 bits become floats. Throws TemplateError
// (kLimit) beyond Value::kMaxDepth, (kRuntime) for strings that are not UTF-8.
Value value_from_json(const nlohmann::ordered_json& json, Origin origin);

}  // namespace tandem::chat_template
