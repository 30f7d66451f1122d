#pragma once
// Reads a request body as JSON within limits. The one wrapper of the JSON library.

#include <string_view>

#include <nlohmann/json.hpp>

#include "comm/runtime/result.h"

namespace tandem::gateway {

using Json = nlohmann::json;

struct JsonLimits {
  size_t max_depth = 64;            // arrays and objects inside each other
  size_t max_values = 1u << 20;     // bounds what a body of brackets can allocate
};

// Strict JSON (RFC 8259): no NaN or Infinity, no number a double can't hold, valid UTF-8, no key
// twice in one object. kInvalidArgument otherwise; field is the path of the value that failed
// ("temperature", "messages[0].content"), or "body" when the body as a whole is wrong.
Result<Json> read_json(std::string_view body, const JsonLimits& limits = {});

// As read_json(), and the value must be an object.
Result<Json> read_json_object(std::string_view body, const JsonLimits& limits = {});

// "null", "a boolean", "a number", "a string", "a list", "an object": for messages.
const char* json_kind(const Json& value);

}  // namespace tandem::gateway
