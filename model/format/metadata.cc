#include "model/format/metadata.h"

#include <bit>
#include <cstring>
#include <limits>
#include <optional>

namespace tandem::format {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place");

constexpr size_t kMaxQuotedBytes = 96;

struct TypeRow {
  const char* name;
  size_t size_bytes;
};
constexpr TypeRow kRows[] = {
    {"uint8", 1}, {"int8", 1},    {"uint16", 2}, {"int16", 2},  {"uint32", 4},
    {"int32", 4}, {"float32", 4}, {"bool", 1},   {"string", 0}, {"array", 0},
    {"uint64", 8}, {"int64", 8},  {"float64", 8},
};

// The file packs values without alignment.
template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// An integer with its sign apart, so that the whole range of both 64-bit types fits.
struct Integer {
  bool negative = false;
  uint64_t bits = 0;  // two's complement when negative
};

template <typename T>
Integer load_integer(const std::byte* from) {
  const T value = load<T>(from);
  return {value < T{0}, static_cast<uint64_t>(static_cast<int64_t>(value))};
}

std::optional<Integer> integer_at(ValueType type, const std::byte* from) {
  switch (type) {
    case ValueType::kUint8: return Integer{false, load<uint8_t>(from)};
    case ValueType::kUint16: return Integer{false, load<uint16_t>(from)};
    case ValueType::kUint32: return Integer{false, load<uint32_t>(from)};
    case ValueType::kUint64: return Integer{false, load<uint64_t>(from)};
    case ValueType::kInt8: return load_integer<int8_t>(from);
    case ValueType::kInt16: return load_integer<int16_t>(from);
    case ValueType::kInt32: return load_integer<int32_t>(from);
    case ValueType::kInt64: return load_integer<int64_t>(from);
    default: return std::nullopt;
  }
}

bool fits_int64(const Integer& value) {
  return value.negative || value.bits <= uint64_t{std::numeric_limits<int64_t>::max()};
}

}  // namespace

const char* value_type_name(ValueType type) {
  const size_t id = static_cast<size_t>(type);
  return id < std::size(kRows) ? kRows[id].name : "unknown";
}

size_t value_type_bytes(ValueType type) {
  const size_t id = static_cast<size_t>(type);
  return id < std::size(kRows) ? kRows[id].size_bytes : 0;
}

std::string quoted(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "'";
  for (const char c : text.substr(0, kMaxQuotedBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '\\') {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  if (text.size() > kMaxQuotedBytes) out += "...";
  out += '\'';
  return out;
}

std::string MetadataValue::type_text() const {
  if (parts_.type != ValueType::kArray) return value_type_name(parts_.type);
  return std::string("array of ") + value_type_name(parts_.element_type);
}

Error MetadataValue::mismatch(const char* wanted) const {
  return {ErrorCode::kInvalidArgument,
          "metadata key " + quoted(parts_.key) + " must be " + wanted + ", it is " + type_text(),
          std::string(parts_.key)};
}

Result<uint64_t> MetadataValue::as_uint() const {
  const std::optional<Integer> value = integer_at(parts_.type, parts_.raw.data());
  if (!value) return mismatch("an integer");
  if (value->negative) return mismatch("an integer that is not negative");
  return value->bits;
}

Result<int64_t> MetadataValue::as_int() const {
  const std::optional<Integer> value = integer_at(parts_.type, parts_.raw.data());
  if (!value) return mismatch("an integer");
  if (!fits_int64(*value)) return mismatch("an integer below 2^63");
  return static_cast<int64_t>(value->bits);
}

Result<double> MetadataValue::as_float() const {
  if (parts_.type == ValueType::kFloat32) return double{load<float>(parts_.raw.data())};
  if (parts_.type == ValueType::kFloat64) return load<double>(parts_.raw.data());
  return mismatch("a float");
}

Result<bool> MetadataValue::as_bool() const {
  if (parts_.type != ValueType::kBool) return mismatch("a bool");
  return parts_.raw[0] != std::byte{0};
}

Result<std::string_view> MetadataValue::as_string() const {
  if (parts_.type != ValueType::kString) return mismatch("a string");
  return std::string_view(reinterpret_cast<const char*>(parts_.raw.data()), parts_.raw.size());
}

Result<std::span<const std::string_view>> MetadataValue::as_strings() const {
  if (parts_.type != ValueType::kArray || parts_.element_type != ValueType::kString) {
    return mismatch("an array of strings");
  }
  return std::span<const std::string_view>(parts_.strings);
}

Result<std::vector<int64_t>> MetadataValue::as_ints() const {
  const size_t stride = value_type_bytes(parts_.element_type);
  if (parts_.type != ValueType::kArray || stride == 0) return mismatch("an array of integers");
  std::vector<int64_t> values;
  values.reserve(parts_.num_elements);
  for (size_t i = 0; i < parts_.num_elements; ++i) {
    const std::optional<Integer> value =
        integer_at(parts_.element_type, parts_.raw.data() + i * stride);
    if (!value) return mismatch("an array of integers");
    if (!fits_int64(*value)) return mismatch("an array of integers below 2^63");
    values.push_back(static_cast<int64_t>(value->bits));
  }
  return values;
}

Result<std::vector<float>> MetadataValue::as_floats() const {
  if (parts_.type != ValueType::kArray || parts_.element_type != ValueType::kFloat32) {
    return mismatch("an array of float32");
  }
  std::vector<float> values(parts_.num_elements);
  if (!values.empty()) std::memcpy(values.data(), parts_.raw.data(), parts_.raw.size());
  return values;
}

}  // namespace tandem::format
