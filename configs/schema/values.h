#pragma once
// Strict reading and writing of single values. No value is ever guessed: numbers are decimal,
// flags are true or false, sizes and durations carry their unit.

#include <cstdint>
#include <string>
#include <vector>

#include "comm/runtime/clock.h"
#include "comm/runtime/result.h"
#include "configs/schema/config.h"

namespace tandem::config {

struct Scalar {
  std::string text;
  bool quoted = false;
  std::string base_folder;  // what a relative path is relative to
};

// Errors hold "what is wrong; what to write". The caller adds where.
Result<int64_t> parse_integer(const Scalar& scalar, int64_t min, int64_t max);
Result<double> parse_number(const Scalar& scalar, double min, double max);
Result<bool> parse_flag(const Scalar& scalar);
Result<int64_t> parse_size(const Scalar& scalar, int64_t min_bytes, int64_t max_bytes);
Result<Duration> parse_duration(const Scalar& scalar, Duration min, Duration max);
// index into choices.
Result<size_t> parse_choice(const Scalar& scalar, const std::vector<std::string>& choices);
Result<std::string> parse_text(const Scalar& scalar, size_t max_length);
// Absolute: "~/" expanded, relative to base_folder.
Result<std::string> parse_path(const Scalar& scalar);
// "HOST:PORT" behind `scheme` ("" or "tcp://"); loopback only.
Result<Endpoint> parse_endpoint(const Scalar& scalar, const std::string& scheme);

std::string format_size(int64_t bytes);
std::string format_duration(Duration duration);
std::string format_number(double number);
std::string join(const std::vector<std::string>& words, const char* separator);

// The word nearest to `given` (at most 2 edits away, fewer than half its letters), or "".
std::string nearest_word(const std::string& given, const std::vector<std::string>& words);

}  // namespace tandem::config
