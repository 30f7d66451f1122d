#pragma once
// UTF-8 as Unicode 15 §3.9 defines it: overlong forms, surrogates and values above U+10FFFF are
// invalid; an invalid sequence is replaced by one U+FFFD per maximal subpart (the same practice as
// WHATWG's decoder), so a character cut off at the end gives exactly one.

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::tokenizer {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct CodePoint {
  uint32_t value = 0;
  uint32_t size_bytes = 0;
};

// The character at text[at]. Requires: text is valid UTF-8, at is a character boundary < size.
CodePoint decode_utf8(std::string_view text, size_t at);

// Requires: code_point <= 0x10FFFF and is no surrogate.
void append_utf8(uint32_t code_point, std::string& out);

// Offset of the first byte that breaks the rules; text.size() when all of it is valid.
size_t find_invalid_utf8(std::string_view text);

// Turns a stream of bytes into a stream of whole characters. Append-only; the text is the same
// however the bytes are cut. Holds back at most three bytes. One owner, one thread.
class Utf8Stream {
 public:
  // The characters that are now decided.
  std::string feed(std::string_view bytes);
  // One U+FFFD for an unfinished character, else nothing. The stream is then as new.
  std::string finish();

 private:
  void feed_byte(uint8_t byte, std::string& out);
  void start(uint8_t byte, std::string& out);

  std::string pending_;      // a well-formed prefix of a character
  uint32_t needed_ = 0;      // continuation bytes still missing
  uint8_t lower_ = 0x80;     // range allowed for the next continuation byte
  uint8_t upper_ = 0xBF;
};

}  // namespace tandem::tokenizer
