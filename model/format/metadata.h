#pragma once
// One metadata entry of a GGUF file: a key and a typed value. Holds views into the map of the
// GgufFile that made it and must not outlive that. Immutable, read from any thread. Never converts
// silently: every accessor refuses another type with an error that names the key (field = key).

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/runtime/result.h"

namespace tandem::format {

// The ids of the file.
enum class ValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// "uint32", "string", "array"; "unknown" outside the enumeration.
const char* value_type_name(ValueType type);

// Bytes of one scalar; 0 for strings, arrays and ids outside the enumeration.
size_t value_type_bytes(ValueType type);

// Text from a file, made fit for a message: quoted, unprintable bytes escaped, cut at 96 bytes.
std::string quoted(std::string_view text);

class MetadataValue {
 public:
  // Made by the reader, which has checked every length. raw: the scalar's or string's bytes, or
  // the packed elements of a numeric array; strings: the elements of a string array.
  struct Parts {
    std::string_view key;
    ValueType type = ValueType::kUint8;
    ValueType element_type = ValueType::kUint8;
    uint64_t num_elements = 0;
    std::span<const std::byte> raw;
    std::vector<std::string_view> strings;
  };
  explicit MetadataValue(Parts parts) : parts_(std::move(parts)) {}

  std::string_view key() const { return parts_.key; }
  ValueType type() const { return parts_.type; }
  // Of arrays; kUint8 and 0 for anything else.
  ValueType element_type() const { return parts_.element_type; }
  uint64_t num_elements() const { return parts_.num_elements; }
  // The bytes of a scalar, a string or a numeric array; empty for a string array.
  std::span<const std::byte> raw() const { return parts_.raw; }

  // Any integer type whose value fits. kInvalidArgument for another type or a value out of range.
  Result<uint64_t> as_uint() const;
  Result<int64_t> as_int() const;
  // float32 or float64, as it lies in the file: may be NaN or infinite.
  Result<double> as_float() const;
  Result<bool> as_bool() const;
  // Raw bytes, not checked to be UTF-8.
  Result<std::string_view> as_string() const;

  // Arrays. Strings are views into the map; numbers are copied.
  Result<std::span<const std::string_view>> as_strings() const;
  Result<std::vector<int64_t>> as_ints() const;
  Result<std::vector<float>> as_floats() const;

  // "uint32" or "array of string": for messages.
  std::string type_text() const;

 private:
  Error mismatch(const char* wanted) const;

  Parts parts_;
};

}  // namespace tandem::format
