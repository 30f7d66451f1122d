#pragma once
// Typed, two-sided reading of the fields of a JSON object.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "coordinator/gateway/json_reader.h"

namespace tandem::gateway {

struct NumberRange {
  double low = 0;
  double high = 0;
  bool low_open = false;   // low itself is refused
};

// Reads fields of one object; null counts as absent. The first failure is kept (kInvalidArgument or
// kUnsupported, field = prefix + name) and every later read gives nothing, so a caller reads all it
// wants and looks at error() once. Never converts between JSON types. Refers to the object.
class Fields {
 public:
  // prefix: "" or what stands before the names in errors ("stream_options.").
  explicit Fields(const Json& object, std::string prefix = {});

  // nullptr when absent or null, or after a failure.
  const Json* find(const char* name) const;
  std::optional<bool> boolean(const char* name);
  std::optional<double> number(const char* name, const NumberRange& range);
  // Fails for 1.0: a number with a fraction part is not an integer here.
  std::optional<int64_t> integer(const char* name, int64_t low, int64_t high);
  std::optional<uint64_t> unsigned_integer(const char* name, uint64_t low, uint64_t high);
  std::optional<std::string> string(const char* name);
  const Json* object(const char* name);
  const Json* list(const char* name);

  // Records a failure; message says what is wrong and what would be right.
  void fail(std::string_view name, std::string message);
  void unsupported(std::string_view name, std::string message);
  // "temperature must be <expected>, not a string".
  void mistyped(std::string_view name, const char* expected, const Json& got);

  bool ok() const { return !error_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  void record(ErrorCode code, std::string_view name, std::string message);

  const Json& object_;
  std::string prefix_;
  std::optional<Error> error_;
};

// A non-negative JSON integer not above `high`; nullopt for anything else.
std::optional<uint64_t> as_unsigned(const Json& value, uint64_t high);

}  // namespace tandem::gateway
