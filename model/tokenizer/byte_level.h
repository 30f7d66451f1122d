#pragma once
// The byte-level alphabet of GPT-2: every byte has a printable character. Bytes that are printable
// in Latin-1 stand for themselves, the other 68 are U+0100, U+0101, … in byte order.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::tokenizer {

// The character of a byte, as UTF-8.
std::string byte_level_character(uint8_t byte);

// The bytes behind a token's spelling; nullopt when a character is outside the alphabet.
// Requires: spelling is UTF-8.
std::optional<std::string> byte_level_decode(std::string_view spelling);

}  // namespace tandem::tokenizer
