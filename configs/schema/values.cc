#include "configs/schema/values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace tandem::config {
namespace {

Error bad(std::string message) { return Error{ErrorCode::kInvalidArgument, std::move(message), ""}; }

std::string shown(const Scalar& scalar) { return "\"" + scalar.text + "\""; }

struct Unit {
  const char* name;
  int64_t factor;
};
constexpr std::array<Unit, 5> kSizeUnits{
    {{"TiB", int64_t{1} << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}};
constexpr std::array<Unit, 4> kTimeUnits{
    {{"min", 60'000'000'000}, {"s", 1'000'000'000}, {"ms", 1'000'000}, {"us", 1'000}}};

// "value times factor" of a whole decimal number with a unit; kind is "size" or "duration".
template <size_t N>
Result<int64_t> parse_with_unit(const Scalar& scalar, const std::array<Unit, N>& units,
                                const std::string& kind, const std::string& example) {
  const std::string& text = scalar.text;
  const std::string want = "write a whole number and a unit, like " + example;
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string unit_text = text.substr(digits);
  if (digits == 0) return bad(shown(scalar) + " is not a " + kind + "; " + want);
  if (unit_text.empty()) return bad(kind + " " + text + " has no unit; " + want);
  if (digits > 1 && text[0] == '0') return bad(shown(scalar) + " starts with a zero; " + want);
  for (const Unit& unit : units) {
    if (unit_text != unit.name) continue;
    int64_t number = 0;
    int64_t product = 0;
    const auto read = std::from_chars(text.data(), text.data() + digits, number);
    if (read.ec != std::errc() || __builtin_mul_overflow(number, unit.factor, &product)) {
      return bad(shown(scalar) + " is too large; " + want);
    }
    return product;
  }
  std::vector<std::string> names;
  for (const Unit& unit : units) names.push_back(unit.name);
  return bad(shown(scalar) + " is not a " + kind + " with one of the units " + join(names, ", ") +
             "; " + want);
}

template <size_t N>
std::string format_with_unit(int64_t value, const std::array<Unit, N>& units,
                             const char* zero) {
  if (value == 0) return zero;
  for (const Unit& unit : units) {
    if (value % unit.factor == 0) return std::to_string(value / unit.factor) + unit.name;
  }
  return std::to_string(value) + "ns";
}

bool is_loopback(const std::string& host) {
  if (host == "::1") return true;
  if (!host.starts_with("127.")) return false;
  return std::count(host.begin(), host.end(), '.') == 3 &&
         host.find_first_not_of("0123456789.") == std::string::npos;
}

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string join(const std::vector<std::string>& words, const char* separator) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : separator) + word;
  return joined;
}

std::string nearest_word(const std::string& given, const std::vector<std::string>& words) {
  std::string best;
  size_t best_distance = 3;
  for (const std::string& word : words) {
    const size_t distance = edit_distance(given, word);
    if (distance < best_distance && 2 * distance < std::max(word.size(), given.size())) {
      best = word;
      best_distance = distance;
    }
  }
  return best;
}

Result<int64_t> parse_integer(const Scalar& scalar, int64_t min, int64_t max) {
  const std::string range = std::to_string(min) + " to " + std::to_string(max);
  const std::string want = "write a whole number from " + range;
  if (scalar.quoted) return bad(shown(scalar) + " is text; " + want + " without quotes");
  const std::string digits = scalar.text.starts_with("-") ? scalar.text.substr(1) : scalar.text;
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) {
    return bad(shown(scalar) + " is not a whole decimal number; " + want);
  }
  if (digits.size() > 1 && digits[0] == '0') {
    return bad(scalar.text + " starts with a zero, which YAML may read as octal; " + want);
  }
  int64_t number = 0;
  const char* end = scalar.text.data() + scalar.text.size();
  const auto read = std::from_chars(scalar.text.data(), end, number);
  if (read.ec != std::errc() || number < min || number > max) {
    return bad(scalar.text + " is out of range; " + want);
  }
  return number;
}

Result<double> parse_number(const Scalar& scalar, double min, double max) {
  const std::string want =
      "write a number from " + format_number(min) + " to " + format_number(max);
  double number = 0;
  const char* end = scalar.text.data() + scalar.text.size();
  const auto read = std::from_chars(scalar.text.data(), end, number, std::chars_format::fixed);
  if (scalar.quoted || read.ec != std::errc() || read.ptr != end || !std::isfinite(number)) {
    return bad(shown(scalar) + " is not a number; " + want);
  }
  if (!(number >= min && number <= max)) return bad(scalar.text + " is out of range; " + want);
  return number;
}

Result<bool> parse_flag(const Scalar& scalar) {
  if (!scalar.quoted && scalar.text == "true") return true;
  if (!scalar.quoted && scalar.text == "false") return false;
  return bad(shown(scalar) + " is not a flag; write true or false");
}

Result<int64_t> parse_size(const Scalar& scalar, int64_t min_bytes, int64_t max_bytes) {
  const Result<int64_t> bytes = parse_with_unit(scalar, kSizeUnits, "size", "512MiB");
  if (!bytes.ok()) return bytes;
  if (*bytes < min_bytes || *bytes > max_bytes) {
    return bad(scalar.text + " is out of range; write a size from " + format_size(min_bytes) +
               " to " + format_size(max_bytes));
  }
  return bytes;
}

Result<Duration> parse_duration(const Scalar& scalar, Duration min, Duration max) {
  const Result<int64_t> ns = parse_with_unit(scalar, kTimeUnits, "duration", "200ms or 3s");
  if (!ns.ok()) return ns.error();
  const Duration duration(*ns);
  if (duration < min || duration > max) {
    return bad(scalar.text + " is out of range; write a duration from " + format_duration(min) +
               " to " + format_duration(max));
  }
  return duration;
}

Result<size_t> parse_choice(const Scalar& scalar, const std::vector<std::string>& choices) {
  const auto found = std::find(choices.begin(), choices.end(), scalar.text);
  if (found != choices.end()) return static_cast<size_t>(found - choices.begin());
  return bad(shown(scalar) + " is unknown; write one of " + join(choices, ", "));
}

Result<std::string> parse_text(const Scalar& scalar, size_t max_length) {
  const bool has_control = std::any_of(scalar.text.begin(), scalar.text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (scalar.text.empty() || scalar.text.size() > max_length || has_control) {
    return bad("the text is empty, longer than " + std::to_string(max_length) +
               " bytes or has control characters; write a short printable text");
  }
  return scalar.text;
}

Result<std::string> parse_path(const Scalar& scalar) {
  const Result<std::string> text = parse_text(scalar, 4095);
  if (!text.ok()) return text;
  std::filesystem::path path(*text);
  if (text->starts_with("~/")) {
    const char* home = std::getenv("HOME");
    if (home == nullptr || *home == '\0') {
      return bad(shown(scalar) + " needs $HOME, which is not set; write an absolute path");
    }
    path = std::filesystem::path(home) / text->substr(2);
  } else if (text->starts_with("~")) {
    return bad(shown(scalar) + " names another user's home; write ~/… or an absolute path");
  }
  return (std::filesystem::path(scalar.base_folder) / path).lexically_normal().string();
}

Result<Endpoint> parse_endpoint(const Scalar& scalar, const std::string& scheme) {
  const std::string want = "write an address like " + scheme + "127.0.0.1:8000 (port 0 = any)";
  if (!scalar.text.starts_with(scheme)) {
    return bad(shown(scalar) + " does not start with " + scheme + "; " + want);
  }
  const std::string address = scalar.text.substr(scheme.size());
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return bad(shown(scalar) + " is not HOST:PORT; " + want);
  }
  Endpoint endpoint;
  endpoint.host = address.substr(0, colon);
  if (endpoint.host.starts_with("[") && endpoint.host.ends_with("]")) {
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  } else if (endpoint.host.find(':') != std::string::npos) {
    return bad(shown(scalar) + " has an IPv6 host without brackets; write [::1]:8000");
  }
  if (endpoint.host == "localhost") endpoint.host = "127.0.0.1";
  const Result<int64_t> port = parse_integer({address.substr(colon + 1), false, ""}, 0, 65535);
  if (!port.ok()) return bad("port " + port.error().message);
  endpoint.port = static_cast<uint16_t>(*port);
  if (!is_loopback(endpoint.host)) {
    return bad(shown(scalar) + " can be reached from other machines, which needs "
               "cluster.secret_file, and that is not yet supported; use 127.0.0.1");
  }
  return endpoint;
}

std::string format_size(int64_t bytes) { return format_with_unit(bytes, kSizeUnits, "0B"); }

std::string format_duration(Duration duration) {
  const int64_t ns = duration.count();
  // Whole minutes read better as seconds: they are how the documents state deadlines.
  if (ns % 1'000'000'000 == 0) return std::to_string(ns / 1'000'000'000) + "s";
  return format_with_unit(ns, kTimeUnits, "0s");
}

std::string format_number(double number) {
  std::array<char, 32> buffer{};
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number,
                                     std::chars_format::fixed);
  return std::string(buffer.data(), written.ptr);
}

}  // namespace tandem::config
