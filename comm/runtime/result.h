#pragma once
// Expected failures: Result<T> carries a value or an Error of a closed set of codes.
// Start-up failures: StartupError, caught in main (one line: what, where, how to fix; exit 2).

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "comm/runtime/check.h"

namespace tandem {

enum class ErrorCode {
  kInvalidArgument,  // the caller's input is wrong and will stay wrong ("never")
  kNotFound,
  kCorrupt,          // stored or received bytes contradict themselves
  kUnsupported,      // well-formed, but this build or version can't do it
  kExhausted,        // no room now; may work later ("not now")
  kUnavailable,      // the other side is gone or not ready
  kDeadline,         // a deadline passed
  kCancelled,
  kFenced,           // an old incarnation, attempt or epoch
  kIo,               // the operating system said no
  kInternal,
};

// Lower-case name of the code, for logs and JSON ("invalid_argument").
const char* error_code_name(ErrorCode code);

// field names what is wrong in the input (a YAML key, a JSON parameter, a tensor); may be empty.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string field;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T v) : state_(std::in_place_index<0>, std::move(v)) {}
  Result(Error e) : state_(std::in_place_index<1>, std::move(e)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Requires: ok().
  T& value() & { CHECK(ok()); return std::get<0>(state_); }
  const T& value() const& { CHECK(ok()); return std::get<0>(state_); }
  T value() && { CHECK(ok()); return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Requires: !ok().
  const Error& error() const& { CHECK(!ok()); return std::get<1>(state_); }
  Error&& error() && { CHECK(!ok()); return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error e) : error_(std::move(e)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  // Requires: !ok().
  const Error& error() const { CHECK(!ok()); return *error_; }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

// Thrown only while a process starts. The message says what, where and how to fix it.
class StartupError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace tandem
