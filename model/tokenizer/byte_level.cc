#include "model/tokenizer/byte_level.h"

#include <array>

#include "model/tokenizer/utf8.h"

namespace tandem::tokenizer {
namespace {

constexpr uint32_t kFirstStandIn = 0x100;
constexpr uint32_t kNumStandIns = 68;

constexpr bool stands_for_itself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// [code point] -> byte, or -1.
constexpr auto kByteOf = [] {
  std::array<int16_t, kFirstStandIn + kNumStandIns> table{};
  uint32_t next = kFirstStandIn;
  for (auto& entry : table) entry = -1;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    table[stands_for_itself(byte) ? byte : next++] = static_cast<int16_t>(byte);
  }
  return table;
}();

}  // namespace

std::string byte_level_character(uint8_t byte) {
  std::string out;
  for (uint32_t code_point = 0; code_point < kByteOf.size(); ++code_point) {
    if (kByteOf[code_point] == byte) append_utf8(code_point, out);
  }
  return out;
}

std::optional<std::string> byte_level_decode(std::string_view spelling) {
  std::string out;
  for (size_t at = 0; at < spelling.size();) {
    const CodePoint point = decode_utf8(spelling, at);
    if (point.value >= kByteOf.size() || kByteOf[point.value] < 0) return std::nullopt;
    out.push_back(static_cast<char>(kByteOf[point.value]));
    at += point.size_bytes;
  }
  return out;
}

}  // namespace tandem::tokenizer
