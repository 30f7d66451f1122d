#pragma once
// Structured log: one event per line, `ts=… level=… instance=… event=… key=value …`.
// A Logger is made in main and passed down by reference; there is no process-wide logger.

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "comm/runtime/ids.h"
#include "comm/runtime/result.h"

namespace tandem::telemetry {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

const char* log_level_name(LogLevel level);
// kInvalidArgument, naming the accepted words, for anything but debug|info|warning|error|off.
Result<LogLevel> parse_log_level(std::string_view name);

// A value of a field. Holds text by reference only: build it in the call that logs it, never keep
// it.
class LogValue {
 public:
  LogValue(std::string_view text) : value_(text) {}
  LogValue(const std::string& text) : value_(std::string_view(text)) {}
  LogValue(const char* text) : value_(std::string_view(text)) {}
  LogValue(bool flag) : value_(flag) {}
  LogValue(std::floating_point auto number) : value_(static_cast<double>(number)) {}
  LogValue(std::signed_integral auto number) : value_(static_cast<int64_t>(number)) {}
  LogValue(std::unsigned_integral auto number) : value_(static_cast<uint64_t>(number)) {}
  template <typename Tag, typename T>
  LogValue(const Id<Tag, T>& id) : value_(static_cast<uint64_t>(id.value)) {}

  // Appends the value to the line; text with spaces, quotes, '=' or control characters is quoted
  // and escaped, so that a line stays one line and splits the same way whatever a client sent.
  void append_to(std::string& line) const;

 private:
  std::variant<std::string_view, bool, double, int64_t, uint64_t> value_;
};

struct LogField {
  std::string_view key;
  LogValue value;
};

struct LoggerOptions {
  std::string instance;               // e.g. "decode-0" or "coordinator"; in every line
  LogLevel level = LogLevel::kInfo;   // events below it cost one comparison
  // Where lines go instead of stderr (no trailing newline). Called by whichever thread logs, one
  // call at a time.
  std::function<void(std::string_view line)> sink = nullptr;
  // What stands behind ts= instead of the wall clock in UTC (the simulation's virtual time).
  std::function<std::string()> timestamp = nullptr;
};

// Owned by main or by a test; outlives everything that logs. All methods are thread-safe. Never
// blocks on anything but the write to stderr, never throws. `event` is a fixed snake_case word.
class Logger {
 public:
  explicit Logger(LoggerOptions options);
  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  bool enabled(LogLevel level) const { return level >= level_; }

  using Fields = std::initializer_list<LogField>;
  void debug(std::string_view event, Fields fields = {}) { log(LogLevel::kDebug, event, fields); }
  void info(std::string_view event, Fields fields = {}) { log(LogLevel::kInfo, event, fields); }
  void warning(std::string_view event, Fields fields = {}) {
    log(LogLevel::kWarning, event, fields);
  }
  void error(std::string_view event, Fields fields = {}) { log(LogLevel::kError, event, fields); }

  void log(LogLevel level, std::string_view event, Fields fields) {
    if (enabled(level)) write(level, event, fields);
  }

 private:
  void write(LogLevel level, std::string_view event, Fields fields);

  struct Impl;
  const LogLevel level_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::telemetry
