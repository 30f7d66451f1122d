#include "comm/telemetry/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <charconv>
#include <chrono>
#include <ctime>
#include <mutex>
#include <utility>

namespace tandem::telemetry {
namespace {

constexpr const char* kLevelNames[] = {"debug", "info", "warning", "error", "off"};

bool needs_quotes(std::string_view text) {
  if (text.empty()) return true;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || byte == 0x7f || c == '"' || c == '=' || c == '\\') return true;
  }
  return false;
}

void append_text(std::string& line, std::string_view text) {
  if (!needs_quotes(text)) {
    line += text;
    return;
  }
  constexpr char kHex[] = "0123456789abcdef";
  line += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      line += '\\';
      line += c;
    } else if (c == '\n') {
      line += "\\n";
    } else if (byte < ' ' || byte == 0x7f) {
      line += "\\x";
      line += kHex[byte >> 4];
      line += kHex[byte & 15];
    } else {
      line += c;
    }
  }
  line += '"';
}

template <typename T>
void append_number(std::string& line, T number) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  line.append(digits, end);
}

std::string utc_timestamp() {
  const auto now = std::chrono::system_clock::now();
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count();
  const std::time_t seconds = micros / 1000000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[48];
  const size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + length, sizeof text - length, ".%06dZ", static_cast<int>(micros % 1000000));
  return text;
}

// Hands finished lines to a function, one at a time.
class FunctionSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FunctionSink(std::function<void(std::string_view)> target)
      : target_(std::move(target)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    target_(std::string_view(message.payload.data(), message.payload.size()));
  }
  void flush_() override {}

  std::function<void(std::string_view)> target_;
};

}  // namespace

const char* log_level_name(LogLevel level) { return kLevelNames[static_cast<int>(level)]; }

Result<LogLevel> parse_log_level(std::string_view name) {
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning,
                               LogLevel::kError, LogLevel::kOff}) {
    if (name == log_level_name(level)) return level;
  }
  return Error{ErrorCode::kInvalidArgument,
               "unknown log level '" + std::string(name) +
                   "'; choose debug, info, warning, error or off",
               {}};
}

void LogValue::append_to(std::string& line) const {
  if (const auto* text = std::get_if<std::string_view>(&value_)) {
    append_text(line, *text);
  } else if (const auto* flag = std::get_if<bool>(&value_)) {
    line += *flag ? "true" : "false";
  } else if (const auto* real = std::get_if<double>(&value_)) {
    append_number(line, *real);
  } else if (const auto* whole = std::get_if<int64_t>(&value_)) {
    append_number(line, *whole);
  } else {
    append_number(line, std::get<uint64_t>(value_));
  }
}

struct Logger::Impl {
  Impl(LoggerOptions given, spdlog::sink_ptr sink)
      : options(std::move(given)), logger(options.instance, std::move(sink)) {}

  const LoggerOptions options;
  spdlog::logger logger;
};

Logger::Logger(LoggerOptions options) : level_(options.level) {
  spdlog::sink_ptr sink;
  if (options.sink) {
    sink = std::make_shared<FunctionSink>(options.sink);
  } else {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  }
  sink->set_pattern("%v");
  impl_ = std::make_unique<Impl>(std::move(options), std::move(sink));
  impl_->logger.set_level(spdlog::level::trace);
  impl_->logger.flush_on(spdlog::level::trace);
}

Logger::~Logger() = default;

void Logger::write(LogLevel level, std::string_view event, Fields fields) {
  std::string line;
  line.reserve(160);
  line += "ts=";
  line += impl_->options.timestamp ? impl_->options.timestamp() : utc_timestamp();
  line += " level=";
  line += log_level_name(level);
  line += " instance=";
  append_text(line, impl_->options.instance);
  line += " event=";
  append_text(line, event);
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    field.value.append_to(line);
  }
  impl_->logger.log(spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace tandem::telemetry
