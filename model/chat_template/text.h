#pragma once
// A string whose every byte knows where it came from. Private to the interpreter's world: what
// leaves it is tokenizer::RenderedPrompt.

#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/rendered_prompt.h"

namespace tandem::chat_template {

using tokenizer::Origin;

// UTF-8. Cutting, joining and mapping keep the origin of every byte that is taken over.
class Text {
 public:
  Text() = default;
  Text(std::string_view bytes, Origin origin)
      : bytes_(bytes), origins_(bytes.size(), static_cast<char>(origin)) {}

  const std::string& bytes() const { return bytes_; }
  size_t size_bytes() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // Requires: at < size_bytes().
  Origin origin(size_t at) const { return static_cast<Origin>(origins_[at]); }

  // Marked as HTML (the filters `safe` and `e`): what is joined to it is escaped, which changes
  // what some published templates print. Only the text itself carries the mark, not its parts.
  bool is_html() const { return is_html_; }
  void mark_html() { is_html_ = true; }

  void append(std::string_view bytes, Origin origin);
  void append(const Text& other);
  // Requires: begin + size_bytes <= size of the text.
  void append(const Text& other, size_t begin, size_t size_bytes);
  Text slice(size_t begin, size_t size_bytes) const;

  tokenizer::RenderedPrompt rendered() const;

 private:
  std::string bytes_;
  std::string origins_;  // [size_bytes()], values of Origin
  bool is_html_ = false;
};

// Text written by the template's author or by the interpreter itself.
inline Text markup(std::string_view bytes) { return Text(bytes, Origin::kMarkup); }

// Offsets of the characters and, last, of the end. Requires: UTF-8.
std::vector<size_t> character_offsets(std::string_view bytes);

// With &, <, >, " and ' as entities, marked as HTML; a text that is HTML already stays as it is.
Text html_escaped(const Text& text);

// What Python's str.isspace() accepts.
bool is_space(uint32_t code_point);

// The text without characters of the set at its ends; an empty set means white space.
enum class Ends { kLeft, kRight, kBoth };
Text stripped(const Text& text, std::string_view characters, Ends ends);

// Python's str.replace, str.split and str.split(None); max_count < 0: no limit.
Text replaced(const Text& text, std::string_view from, const Text& to, int64_t max_count);
std::vector<Text> split(const Text& text, std::string_view separator, int64_t max_count);
std::vector<Text> split_at_space(const Text& text, int64_t max_count);
// Without the line ends.
std::vector<Text> split_lines(const Text& text);

}  // namespace tandem::chat_template
