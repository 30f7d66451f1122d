#include "model/chat_template/letter_case.h"

#include <locale.h>
#include <wctype.h>

#include <memory>
#include <type_traits>

#include "model/tokenizer/utf8.h"

namespace tandem::chat_template {
namespace {

struct LocaleFree {
  void operator()(locale_t locale) const { freelocale(locale); }
};

// The C library's tables. Where it has no C.UTF-8, only ASCII letters have case.
class Letters {
 public:
  Letters() : locale_(newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {}

  uint32_t upper(uint32_t c) const {
    if (locale_ == nullptr) return c >= 'a' && c <= 'z' ? c - 0x20 : c;
    return static_cast<uint32_t>(towupper_l(static_cast<wint_t>(c), locale_.get()));
  }
  uint32_t lower(uint32_t c) const {
    if (locale_ == nullptr) return c >= 'A' && c <= 'Z' ? c + 0x20 : c;
    return static_cast<uint32_t>(towlower_l(static_cast<wint_t>(c), locale_.get()));
  }
  bool alphabetic(uint32_t c) const {
    if (locale_ == nullptr) return lower(c) >= 'a' && lower(c) <= 'z';
    return iswalpha_l(static_cast<wint_t>(c), locale_.get()) != 0;
  }

 private:
  std::unique_ptr<std::remove_pointer_t<locale_t>, LocaleFree> locale_;
};

void put(uint32_t code_point, Origin origin, Text& out) {
  std::string bytes;
  tokenizer::append_utf8(code_point, bytes);
  out.append(bytes, origin);
}

void put_upper(const Letters& letters, uint32_t c, Origin origin, Text& out) {
  if (c == 0xDF) {
    out.append("SS", origin);
  } else {
    put(letters.upper(c), origin, out);
  }
}

// visit(code point, origin) for every character.
template <typename Visit>
void for_each_character(const Text& text, Visit visit) {
  for (size_t at = 0; at < text.size_bytes();) {
    const tokenizer::CodePoint point = tokenizer::decode_utf8(text.bytes(), at);
    visit(point.value, text.origin(at));
    at += point.size_bytes;
  }
}

// word_of tells whether a character belongs to a word; the first of each is upper, the rest lower.
Text words_capitalized(const Text& text, bool one_word) {
  const Letters letters;
  Text out;
  bool inside = false;
  for_each_character(text, [&](uint32_t c, Origin origin) {
    if (inside) {
      put(letters.lower(c), origin, out);
    } else {
      put_upper(letters, c, origin, out);
    }
    inside = one_word || letters.alphabetic(c);
  });
  return out;
}

bool has_only_case(const Text& text, bool wants_upper) {
  const Letters letters;
  bool some = false, all = true;
  for_each_character(text, [&](uint32_t c, Origin) {
    const bool is_lower_letter = letters.upper(c) != c, is_upper_letter = letters.lower(c) != c;
    some = some || (wants_upper ? is_upper_letter : is_lower_letter);
    all = all && !(wants_upper ? is_lower_letter : is_upper_letter);
  });
  return some && all;
}

}  // namespace

Text upper(const Text& text) {
  const Letters letters;
  Text out;
  for_each_character(text, [&](uint32_t c, Origin origin) { put_upper(letters, c, origin, out); });
  return out;
}

Text lower(const Text& text) {
  const Letters letters;
  Text out;
  for_each_character(text, [&](uint32_t c, Origin origin) { put(letters.lower(c), origin, out); });
  return out;
}

Text capitalized(const Text& text) { return words_capitalized(text, true); }
Text title_case(const Text& text) { return words_capitalized(text, false); }
bool is_upper(const Text& text) { return has_only_case(text, true); }
bool is_lower(const Text& text) { return has_only_case(text, false); }
bool is_alphabetic(uint32_t code_point) { return Letters().alphabetic(code_point); }

}  // namespace tandem::chat_template
