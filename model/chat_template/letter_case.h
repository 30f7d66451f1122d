#pragma once
// Upper and lower case of all letters of Unicode, whatever the process's locale is.

#include "model/chat_template/text.h"

namespace tandem::chat_template {

// Every mapped character keeps the origin of the one it came from. One to one, except that the
// upper case of U+00DF is "SS".
Text upper(const Text& text);
Text lower(const Text& text);
// First letter upper, the rest lower.
Text capitalized(const Text& text);
// The same for every word; a word is a run of letters.
Text title_case(const Text& text);

// Python's str.isupper and str.islower: some letter has case, and all that have it have this one.
bool is_upper(const Text& text);
bool is_lower(const Text& text);
bool is_alphabetic(uint32_t code_point);

}  // namespace tandem::chat_template
