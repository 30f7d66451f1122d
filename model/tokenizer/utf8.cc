#include "model/tokenizer/utf8.h"

#include "comm/runtime/check.h"

namespace tandem::tokenizer {
namespace {

// What a lead byte says about the bytes after it; needed 0 for ASCII, invalid for no lead byte.
struct Lead {
  bool valid = false;
  uint32_t needed = 0;
  uint8_t lower = 0x80;
  uint8_t upper = 0xBF;
};

Lead classify(uint8_t byte) {
  if (byte < 0x80) return {.valid = true};
  if (byte >= 0xC2 && byte <= 0xDF) return {.valid = true, .needed = 1};
  if (byte == 0xE0) return {.valid = true, .needed = 2, .lower = 0xA0};
  if (byte == 0xED) return {.valid = true, .needed = 2, .upper = 0x9F};  // no surrogates
  if (byte >= 0xE1 && byte <= 0xEF) return {.valid = true, .needed = 2};
  if (byte == 0xF0) return {.valid = true, .needed = 3, .lower = 0x90};
  if (byte == 0xF4) return {.valid = true, .needed = 3, .upper = 0x8F};  // up to U+10FFFF
  if (byte >= 0xF1 && byte <= 0xF3) return {.valid = true, .needed = 3};
  return {};
}

}  // namespace

CodePoint decode_utf8(std::string_view text, size_t at) {
  CHECK_LT(at, text.size());
  const auto lead = static_cast<uint8_t>(text[at]);
  const uint32_t needed = classify(lead).needed;
  CHECK_LE(at + needed, text.size() - 1);
  uint32_t value = needed == 0 ? lead : lead & (0x3Fu >> needed);
  for (uint32_t i = 1; i <= needed; ++i) {
    value = (value << 6) | (static_cast<uint8_t>(text[at + i]) & 0x3Fu);
  }
  return {.value = value, .size_bytes = needed + 1};
}

void append_utf8(uint32_t code_point, std::string& out) {
  CHECK_LE(code_point, 0x10FFFFu);
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
    return;
  }
  const int needed = code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
  const uint32_t lead_bits = ~(0xFFu >> (needed + 1));  // 0xC0, 0xE0 or 0xF0 in the low byte
  out.push_back(static_cast<char>((lead_bits | (code_point >> (6 * needed))) & 0xFF));
  for (int shift = 6 * (needed - 1); shift >= 0; shift -= 6) {
    out.push_back(static_cast<char>(0x80 | ((code_point >> shift) & 0x3F)));
  }
}

size_t find_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Lead lead = classify(static_cast<uint8_t>(text[at]));
    if (!lead.valid || text.size() - at <= lead.needed) return at;
    for (uint32_t i = 1; i <= lead.needed; ++i) {
      const auto byte = static_cast<uint8_t>(text[at + i]);
      const uint8_t lower = i == 1 ? lead.lower : 0x80;
      const uint8_t upper = i == 1 ? lead.upper : 0xBF;
      if (byte < lower || byte > upper) return at;
    }
    at += lead.needed + 1;
  }
  return at;
}

std::string Utf8Stream::feed(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + kReplacement.size());
  for (const char c : bytes) feed_byte(static_cast<uint8_t>(c), out);
  return out;
}

std::string Utf8Stream::finish() {
  const bool cut = needed_ > 0;
  pending_.clear();
  needed_ = 0;
  return cut ? std::string(kReplacement) : std::string();
}

void Utf8Stream::feed_byte(uint8_t byte, std::string& out) {
  if (needed_ == 0) {
    start(byte, out);
    return;
  }
  if (byte < lower_ || byte > upper_) {  // the pending bytes are a maximal subpart
    out += finish();
    start(byte, out);
    return;
  }
  pending_.push_back(static_cast<char>(byte));
  lower_ = 0x80;
  upper_ = 0xBF;
  if (--needed_ > 0) return;
  out += pending_;
  pending_.clear();
}

void Utf8Stream::start(uint8_t byte, std::string& out) {
  const Lead lead = classify(byte);
  if (!lead.valid) {
    out += kReplacement;
  } else if (lead.needed == 0) {
    out.push_back(static_cast<char>(byte));
  } else {
    pending_.assign(1, static_cast<char>(byte));
    needed_ = lead.needed;
    lower_ = lead.lower;
    upper_ = lead.upper;
  }
}

}  // namespace tandem::tokenizer
