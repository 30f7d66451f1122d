#include "model/chat_template/lexer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "model/chat_template/template_error.h"
#include "model/tokenizer/utf8.h"

namespace tandem::chat_template {
namespace {

using Type = Token::Type;

constexpr std::string_view kSpaces = " \t\n\v\f\r";
// Longer ones first.
constexpr std::array<std::string_view, 26> kOperators = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

constexpr size_t kMaxTagTokens = 4096;  // bounds the depth of an expression's tree

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_byte(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<uint8_t>(c) >= 0x80;
}

std::string normalised(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      out.push_back('\n');
    } else {
      out.push_back(source[i]);
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalised(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) lex_data();
    push(Type::kEnd, "");
    return std::move(tokens_);
  }

 private:
  struct Tag {
    size_t begin = 0;
    char kind = 0;   // '{', '%' or '#'
    char sign = 0;   // '-', '+' or none
    size_t inside = 0;
  };

  [[noreturn]] void fail_here(std::string message) const {
    throw TemplateError{TemplateError::Kind::kSyntax, std::move(message), line_};
  }

  void push(Type type, std::string_view text) {
    tokens_.push_back({.type = type, .text = std::string(text), .line = line_});
  }

  void move_to(size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at_ = end;
  }

  bool at(size_t position, std::string_view text) const {
    return std::string_view(source_).substr(std::min(position, source_.size())).starts_with(text);
  }

  size_t skip_spaces(size_t position) const {
    return std::min(source_.find_first_not_of(kSpaces, position), source_.size());
  }

  // The next tag at or after the current position; begin == size when there is none.
  Tag find_tag() const {
    for (size_t i = at_; i + 1 < source_.size(); ++i) {
      const char kind = source_[i + 1];
      if (source_[i] != '{' || (kind != '{' && kind != '%' && kind != '#')) continue;
      Tag tag{.begin = i, .kind = kind, .inside = i + 2};
      if (tag.inside < source_.size() &&
          (source_[tag.inside] == '-' || source_[tag.inside] == '+')) {
        tag.sign = source_[tag.inside++];
      }
      return tag;
    }
    return {.begin = source_.size(), .inside = source_.size()};
  }

  // Data up to a tag, without the white space the tag takes away.
  void push_data(size_t end, char kind, char sign) {
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    if (sign == '-') {
      text = text.substr(0, text.find_last_not_of(kSpaces) + 1);
    } else if (sign != '+' && kind != '{' && kind != 0) {  // lstrip_blocks
      const size_t line_begin = text.rfind('\n') + 1;  // 0 when there is no line end
      const bool only_space = text.find_first_not_of(kSpaces, line_begin) == text.npos;
      if ((line_begin > 0 || line_starting_) && only_space) text = text.substr(0, line_begin);
    }
    if (!text.empty()) push(Type::kData, text);
    move_to(end);
  }

  void lex_data() {
    const Tag tag = find_tag();
    push_data(tag.begin, tag.kind, tag.sign);
    if (at_ == source_.size()) return;
    if (tag.kind == '#') {
      lex_comment(tag.inside);
    } else if (tag.kind == '%' && lex_raw(tag)) {
      return;
    } else {
      push(tag.kind == '%' ? Type::kBlockBegin : Type::kVariableBegin, "");
      move_to(tag.inside);
      lex_inside(tag.kind == '%');
    }
  }

  // Past the end of a block or comment whose closing text ("%}" or "#}") begins at `end`.
  void close_tag(size_t end, char sign) {
    end += 2;
    if (sign == '-') {
      end = skip_spaces(end);
    } else if (sign == 0 && at(end, "\n")) {  // trim_blocks
      ++end;
    }
    line_starting_ = source_[end - 1] == '\n';
    move_to(end);
  }

  void lex_comment(size_t from) {
    const size_t end = source_.find("#}", from);
    if (end == std::string::npos) fail_here("Missing end of comment tag");
    const char last = end > from ? source_[end - 1] : '\0';
    close_tag(end, last == '-' || last == '+' ? last : '\0');
  }

  // {% raw %} … {% endraw %}. False when the tag is no raw tag.
  bool lex_raw(const Tag& tag) {
    size_t end = skip_spaces(tag.inside);
    if (!at(end, "raw")) return false;
    end = skip_spaces(end + 3);
    const bool strips = at(end, "-%}");
    if (!strips && !at(end, "%}")) return false;
    end = strips ? skip_spaces(end + 3) : end + 2;
    line_starting_ = source_[end - 1] == '\n';
    move_to(end);
    for (size_t from = at_; (from = source_.find("{%", from)) != std::string::npos; from += 2) {
      size_t inside = from + 2;
      char sign = 0;
      if (inside < source_.size() && (source_[inside] == '-' || source_[inside] == '+')) {
        sign = source_[inside++];
      }
      inside = skip_spaces(inside);
      if (!at(inside, "endraw")) continue;
      inside = skip_spaces(inside + 6);
      const char close = at(inside, "-%}") ? '-' : at(inside, "+%}") ? '+' : '\0';
      if (close != 0) ++inside;
      if (!at(inside, "%}")) continue;
      push_data(from, '%', sign);
      close_tag(inside, close);
      return true;
    }
    fail_here("Missing end of raw directive");
  }

  // Tokens of a block or variable tag, its end included.
  void lex_inside(bool block) {
    std::string open;  // brackets that wait for their partner
    const size_t first_token = tokens_.size();
    while (true) {
      if (tokens_.size() - first_token > kMaxTagTokens) fail_here("a tag with too many tokens");
      move_to(skip_spaces(at_));
      if (at_ == source_.size()) fail_here("Unexpected end of template inside a tag");
      if (open.empty() && lex_tag_end(block)) return;
      const char c = source_[at_];
      if (is_digit(c)) {
        lex_number();
      } else if (is_name_byte(c)) {
        size_t end = at_;
        while (end < source_.size() && is_name_byte(source_[end])) ++end;
        push(Type::kName, std::string_view(source_).substr(at_, end - at_));
        move_to(end);
      } else if (c == '"' || c == '\'') {
        lex_string(c);
      } else {
        lex_operator(open);
      }
    }
  }

  bool lex_tag_end(bool block) {
    const std::string_view end = block ? "%}" : "}}";
    const bool strips = source_[at_] == '-' && at(at_ + 1, end);
    const bool keeps = block && source_[at_] == '+' && at(at_ + 1, end);
    if (!strips && !keeps && !at(at_, end)) return false;
    push(block ? Type::kBlockEnd : Type::kVariableEnd, "");
    const size_t close = at_ + (strips || keeps ? 1 : 0);
    if (block) {
      close_tag(close, strips ? '-' : keeps ? '+' : '\0');
    } else {
      const size_t after = strips ? skip_spaces(close + 2) : close + 2;
      line_starting_ = source_[after - 1] == '\n';
      move_to(after);
    }
    return true;
  }

  size_t digits_end(size_t from) const {
    while (from < source_.size() && (is_digit(source_[from]) || source_[from] == '_')) ++from;
    return from;
  }

  void lex_number() {
    size_t end = at_;
    Type type = Type::kInteger;
    const char base = end + 1 < source_.size() && source_[end] == '0'
                          ? static_cast<char>(source_[end + 1] | 0x20) : '\0';
    if (base == 'x' || base == 'o' || base == 'b') {
      end += 2;
      while (end < source_.size() && is_name_byte(source_[end])) ++end;
    } else {
      end = digits_end(end);
      const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';  // a.1.2 is two subscripts
      if (!after_dot && at(end, ".") && end + 1 < source_.size() && is_digit(source_[end + 1])) {
        type = Type::kFloat;
        end = digits_end(end + 1);
      }
      if (!after_dot && end < source_.size() && (source_[end] | 0x20) == 'e') {
        size_t exponent = end + 1;
        if (at(exponent, "+") || at(exponent, "-")) ++exponent;
        if (exponent < source_.size() && is_digit(source_[exponent])) {
          type = Type::kFloat;
          end = digits_end(exponent);
        }
      }
    }
    std::string spelling = source_.substr(at_, end - at_);
    std::erase(spelling, '_');
    push(type, spelling);
    move_to(end);
  }

  void lex_operator(std::string& open) {
    for (const std::string_view op : kOperators) {
      if (!at(at_, op)) continue;
      const char c = op[0];
      if (c == '(' || c == '[' || c == '{') open.push_back(c);
      if (c == ')' || c == ']' || c == '}') {
        const char partner = c == ')' ? '(' : c == ']' ? '[' : '{';
        if (open.empty() || open.back() != partner) {
          fail_here("unexpected '" + std::string(op) + "'");
        }
        open.pop_back();
      }
      push(Type::kOperator, op);
      move_to(at_ + op.size());
      return;
    }
    fail_here("unexpected char '" + source_.substr(at_, 1) + "'");
  }

  void lex_string(char quote) {
    std::string out;
    size_t i = at_ + 1;
    while (i < source_.size() && source_[i] != quote) {
      if (source_[i] != '\\') {
        out.push_back(source_[i++]);
      } else {
        i = unescape(i + 1, out);
      }
    }
    if (i >= source_.size()) fail_here("Unexpected end of a string");
    push(Type::kString, out);
    move_to(i + 1);
  }

  // Python's escapes; i is behind the backslash. Returns the position after the escape.
  size_t unescape(size_t i, std::string& out) {
    if (i >= source_.size()) fail_here("Unexpected end of a string");
    constexpr std::string_view kFrom = "ntrabfv\\'\"";
    constexpr std::string_view kTo = "\n\t\r\a\b\f\v\\'\"";
    const char c = source_[i];
    if (const size_t known = kFrom.find(c); known != kFrom.npos) {
      out.push_back(kTo[known]);
      return i + 1;
    }
    if (c == '\n') return i + 1;
    if (c >= '0' && c <= '7') return code_escape(i, 3, 8, out);
    if (c == 'x') return code_escape(i + 1, 2, 16, out);
    if (c == 'u') return code_escape(i + 1, 4, 16, out);
    if (c == 'U') return code_escape(i + 1, 8, 16, out);
    out.push_back('\\');  // an unknown escape stays as it is written
    return i;
  }

  size_t code_escape(size_t i, size_t max_digits, uint32_t base, std::string& out) {
    uint32_t code = 0;
    size_t num_digits = 0;
    for (; num_digits < max_digits && i < source_.size(); ++num_digits, ++i) {
      const char c = source_[i];
      const char lower = static_cast<char>(c | 0x20);
      uint32_t digit = base;
      if (is_digit(c)) digit = static_cast<uint32_t>(c - '0');
      if (lower >= 'a' && lower <= 'f') digit = static_cast<uint32_t>(lower - 'a') + 10;
      if (digit >= base) break;
      code = code * base + digit;
      if (code > 0x10FFFF) fail_here("a character code above U+10FFFF");
    }
    const bool truncated = base == 16 && num_digits < max_digits;
    if (truncated || (code >= 0xD800 && code <= 0xDFFF)) fail_here("a bad character escape");
    tokenizer::append_utf8(code, out);
    return i;
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the last tag ended a line, or there was none
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace tandem::chat_template
