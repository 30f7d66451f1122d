#include "model/spec/key_reader.h"

#include <cmath>
#include <sstream>

namespace tandem::spec {
namespace {

std::string number_text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

}  // namespace

void KeyReader::fail(ErrorCode code, const std::string& key, const std::string& message) {
  if (!error_) error_ = Error{code, message, prefix_ + key};
}

const format::MetadataValue* KeyReader::visit(const std::string& key, bool required) {
  const std::string full = prefix_ + key;
  visited_.insert(full);
  const format::MetadataValue* value = file_.find(full);
  if (value == nullptr && required) {
    fail(ErrorCode::kNotFound, key, "metadata key '" + full + "' is missing");
  }
  return value;
}

int32_t KeyReader::integer(const std::string& key, int32_t low, int32_t high,
                           std::optional<int32_t> fallback) {
  const format::MetadataValue* value = visit(key, !fallback.has_value());
  if (value == nullptr) return fallback.value_or(low);
  const Result<uint64_t> number = value->as_uint();
  if (!number.ok()) {
    fail(number.error().code, key, number.error().message);
    return low;
  }
  if (*number < static_cast<uint64_t>(low) || *number > static_cast<uint64_t>(high)) {
    fail(ErrorCode::kCorrupt, key,
         "metadata key '" + prefix_ + key + "' is " + std::to_string(*number) + ", it must be " +
             std::to_string(low) + " to " + std::to_string(high));
    return low;
  }
  return static_cast<int32_t>(*number);
}

double KeyReader::real(const std::string& key, double low, double high,
                       std::optional<double> fallback) {
  const format::MetadataValue* value = visit(key, !fallback.has_value());
  if (value == nullptr) return fallback.value_or(low);
  const Result<double> number = value->as_float();
  if (!number.ok()) {
    fail(number.error().code, key, number.error().message);
    return low;
  }
  if (!(*number >= low && *number <= high)) {
    fail(ErrorCode::kCorrupt, key,
         "metadata key '" + prefix_ + key + "' is " + number_text(*number) + ", it must be " +
             number_text(low) + " to " + number_text(high));
    return low;
  }
  return *number;
}

bool KeyReader::boolean(const std::string& key, bool fallback) {
  const format::MetadataValue* value = visit(key, false);
  if (value == nullptr) return fallback;
  const Result<bool> flag = value->as_bool();
  if (flag.ok()) return *flag;
  fail(flag.error().code, key, flag.error().message);
  return fallback;
}

std::string KeyReader::text(const std::string& key, const std::string& fallback) {
  const format::MetadataValue* value = visit(key, false);
  if (value == nullptr) return fallback;
  const Result<std::string_view> view = value->as_string();
  if (view.ok()) return std::string(*view);
  fail(view.error().code, key, view.error().message);
  return fallback;
}

Status KeyReader::finish() const {
  if (error_) return *error_;
  for (const format::MetadataValue& value : file_.metadata()) {
    if (!value.key().starts_with(prefix_) || visited_.contains(std::string(value.key()))) continue;
    return Error{ErrorCode::kUnsupported,
                 "metadata key " + format::quoted(value.key()) +
                     " is not known and might change what the model means",
                 std::string(value.key())};
  }
  return {};
}

}  // namespace tandem::spec
