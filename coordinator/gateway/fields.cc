#include "coordinator/gateway/fields.h"

#include <charconv>
#include <utility>

#include "comm/runtime/check.h"

namespace tandem::gateway {
namespace {

std::string shown(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

std::string bounds(const std::string& low, const std::string& high, bool low_open) {
  return (low_open ? "greater than " : "at least ") + low + " and at most " + high;
}

}  // namespace

Fields::Fields(const Json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {
  CHECK(object_.is_object());
}

const Json* Fields::find(const char* name) const {
  if (error_) return nullptr;
  const auto at = object_.find(name);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

std::optional<bool> Fields::boolean(const char* name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  mistyped(name, "a boolean", *value);
  return std::nullopt;
}

std::optional<double> Fields::number(const char* name, const NumberRange& range) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    mistyped(name, "a number", *value);
    return std::nullopt;
  }
  const double number = value->get<double>();
  // Written so that a NaN fails.
  const bool above = range.low_open ? number > range.low : number >= range.low;
  if (above && number <= range.high) return number;
  fail(name, "must be " + bounds(shown(range.low), shown(range.high), range.low_open));
  return std::nullopt;
}

std::optional<int64_t> Fields::integer(const char* name, int64_t low, int64_t high) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    mistyped(name, "an integer", *value);
    return std::nullopt;
  }
  // Unsigned values above INT64_MAX must not wrap.
  const bool fits = value->is_number_integer() &&
                    !(value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX);
  if (fits) {
    const auto number = value->get<int64_t>();
    if (number >= low && number <= high) return number;
  }
  fail(name, "must be an integer, " +
                 bounds(std::to_string(low), std::to_string(high), false));
  return std::nullopt;
}

std::optional<uint64_t> Fields::unsigned_integer(const char* name, uint64_t low, uint64_t high) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    mistyped(name, "an integer", *value);
    return std::nullopt;
  }
  const std::optional<uint64_t> number = as_unsigned(*value, high);
  if (number && *number >= low) return number;
  fail(name, "must be an integer, " +
                 bounds(std::to_string(low), std::to_string(high), false));
  return std::nullopt;
}

std::optional<std::string> Fields::string(const char* name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  mistyped(name, "a string", *value);
  return std::nullopt;
}

const Json* Fields::object(const char* name) {
  const Json* value = find(name);
  if (value == nullptr || value->is_object()) return value;
  mistyped(name, "an object", *value);
  return nullptr;
}

const Json* Fields::list(const char* name) {
  const Json* value = find(name);
  if (value == nullptr || value->is_array()) return value;
  mistyped(name, "a list", *value);
  return nullptr;
}

void Fields::fail(std::string_view name, std::string message) {
  record(ErrorCode::kInvalidArgument, name, std::move(message));
}

void Fields::unsupported(std::string_view name, std::string message) {
  record(ErrorCode::kUnsupported, name, std::move(message));
}

void Fields::mistyped(std::string_view name, const char* expected, const Json& got) {
  fail(name, std::string("must be ") + expected + ", not " + json_kind(got));
}

void Fields::record(ErrorCode code, std::string_view name, std::string message) {
  if (error_) return;
  std::string field = prefix_ + std::string(name);
  error_ = Error{code, field + " " + message, field};
}

std::optional<uint64_t> as_unsigned(const Json& value, uint64_t high) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.get<uint64_t>();
  return number <= high ? std::optional(number) : std::nullopt;
}

}  // namespace tandem::gateway
