#pragma once
// Reads a file's bytes front to back. Never reads past the end: a read that doesn't fit sets a
// sticky error with needed and present bytes and gives zero or an empty view, so a caller reads a
// record and asks once. Single-threaded, lives on a stack, private to the module.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "comm/runtime/result.h"

namespace tandem::format {

class ByteCursor {
 public:
  explicit ByteCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t offset() const { return offset_; }
  uint64_t remaining() const { return failed() ? 0 : bytes_.size() - offset_; }

  // What is being read, for the error: "metadata key 'a.b'", "tensor 'x'".
  void set_subject(std::string subject, std::string_view field) {
    subject_ = std::move(subject);
    field_ = field;
  }

  template <typename T>
  T read() {
    T value{};
    const std::span<const std::byte> raw = take(sizeof(T));
    if (!failed()) std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }

  std::span<const std::byte> take(uint64_t num_bytes) {
    if (failed()) return {};
    if (num_bytes > bytes_.size() - offset_) {
      error_ = Error{ErrorCode::kCorrupt,
                     "truncated: " + subject_ + " needs " + std::to_string(num_bytes) +
                         " bytes at offset " + std::to_string(offset_) + ", " +
                         std::to_string(bytes_.size() - offset_) + " present (file size " +
                         std::to_string(bytes_.size()) + ")",
                     std::string(field_)};
      return {};
    }
    const std::span<const std::byte> raw = bytes_.subspan(offset_, num_bytes);
    offset_ += num_bytes;
    return raw;
  }

  // A u64 length and that many bytes.
  std::string_view read_string() {
    const uint64_t length = read<uint64_t>();
    const std::span<const std::byte> raw = take(length);
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }

  bool failed() const { return error_.has_value(); }
  Status status() const { return failed() ? Status(*error_) : Status(); }

 private:
  std::span<const std::byte> bytes_;
  uint64_t offset_ = 0;
  std::string subject_ = "header";
  std::string_view field_;
  std::optional<Error> error_;
};

}  // namespace tandem::format
