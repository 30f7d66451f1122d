#include "model/chat_template/text.h"

#include "comm/runtime/check.h"
#include "model/tokenizer/utf8.h"

namespace tandem::chat_template {

using tokenizer::CodePoint;
using tokenizer::decode_utf8;

void Text::append(std::string_view bytes, Origin origin) {
  bytes_.append(bytes);
  origins_.append(bytes.size(), static_cast<char>(origin));
}

void Text::append(const Text& other) { append(other, 0, other.size_bytes()); }

void Text::append(const Text& other, size_t begin, size_t size_bytes) {
  CHECK_LE(begin + size_bytes, other.size_bytes());
  bytes_.append(other.bytes_, begin, size_bytes);
  origins_.append(other.origins_, begin, size_bytes);
}

Text Text::slice(size_t begin, size_t size_bytes) const {
  Text result;
  result.append(*this, begin, size_bytes);
  return result;
}

tokenizer::RenderedPrompt Text::rendered() const {
  tokenizer::RenderedPrompt result;
  result.text = bytes_;
  for (const char origin : origins_) {
    if (result.spans.empty() || result.spans.back().origin != static_cast<Origin>(origin)) {
      result.spans.push_back({.size_bytes = 0, .origin = static_cast<Origin>(origin)});
    }
    ++result.spans.back().size_bytes;
  }
  return result;
}

std::vector<size_t> character_offsets(std::string_view bytes) {
  std::vector<size_t> offsets;
  offsets.reserve(bytes.size() + 1);
  for (size_t at = 0; at < bytes.size(); ++at) {
    if ((static_cast<uint8_t>(bytes[at]) & 0xC0) != 0x80) offsets.push_back(at);
  }
  offsets.push_back(bytes.size());
  return offsets;
}

Text html_escaped(const Text& text) {
  if (text.is_html()) return text;
  Text out;
  for (size_t at = 0; at < text.size_bytes(); ++at) {
    const Origin origin = text.origin(at);
    switch (text.bytes()[at]) {
      case '&': out.append("&amp;", origin); break;
      case '<': out.append("&lt;", origin); break;
      case '>': out.append("&gt;", origin); break;
      case '"': out.append("&#34;", origin); break;
      case '\'': out.append("&#39;", origin); break;
      default: out.append(text, at, 1);
    }
  }
  out.mark_html();
  return out;
}

bool is_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

Text stripped(const Text& text, std::string_view characters, Ends ends) {
  const std::string& bytes = text.bytes();
  const std::vector<size_t> offsets = character_offsets(bytes);
  const auto strips = [&](size_t index) {
    if (characters.empty()) return is_space(decode_utf8(bytes, offsets[index]).value);
    const size_t size = offsets[index + 1] - offsets[index];
    return characters.find(std::string_view(bytes).substr(offsets[index], size)) !=
           std::string_view::npos;
  };
  size_t first = 0, last = offsets.size() - 1;
  if (ends != Ends::kRight) {
    while (first < last && strips(first)) ++first;
  }
  if (ends != Ends::kLeft) {
    while (last > first && strips(last - 1)) --last;
  }
  return text.slice(offsets[first], offsets[last] - offsets[first]);
}

Text replaced(const Text& text, std::string_view from, const Text& to, int64_t max_count) {
  Text result;
  const std::string& bytes = text.bytes();
  if (from.empty()) {  // before every character and at the end
    const std::vector<size_t> offsets = character_offsets(bytes);
    for (size_t i = 0; i < offsets.size(); ++i) {
      if (max_count < 0 || static_cast<int64_t>(i) < max_count) result.append(to);
      if (i + 1 < offsets.size()) result.append(text, offsets[i], offsets[i + 1] - offsets[i]);
    }
    return result;
  }
  size_t at = 0;
  for (int64_t count = 0; max_count < 0 || count < max_count; ++count) {
    const size_t found = bytes.find(from, at);
    if (found == std::string::npos) break;
    result.append(text, at, found - at);
    result.append(to);
    at = found + from.size();
  }
  result.append(text, at, bytes.size() - at);
  return result;
}

std::vector<Text> split(const Text& text, std::string_view separator, int64_t max_count) {
  CHECK(!separator.empty());
  std::vector<Text> parts;
  size_t at = 0;
  while (max_count < 0 || static_cast<int64_t>(parts.size()) < max_count) {
    const size_t found = text.bytes().find(separator, at);
    if (found == std::string::npos) break;
    parts.push_back(text.slice(at, found - at));
    at = found + separator.size();
  }
  parts.push_back(text.slice(at, text.size_bytes() - at));
  return parts;
}

std::vector<Text> split_at_space(const Text& text, int64_t max_count) {
  std::vector<Text> parts;
  const std::string& bytes = text.bytes();
  const auto skip = [&](size_t at, bool spaces) {
    while (at < bytes.size()) {
      const CodePoint point = decode_utf8(bytes, at);
      if (is_space(point.value) != spaces) break;
      at += point.size_bytes;
    }
    return at;
  };
  size_t at = skip(0, true);
  while (at < bytes.size()) {
    if (max_count >= 0 && static_cast<int64_t>(parts.size()) == max_count) {
      parts.push_back(stripped(text.slice(at, bytes.size() - at), {}, Ends::kRight));
      break;
    }
    const size_t end = skip(at, false);
    parts.push_back(text.slice(at, end - at));
    at = skip(end, true);
  }
  return parts;
}

std::vector<Text> split_lines(const Text& text) {
  std::vector<Text> lines;
  const std::string& bytes = text.bytes();
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    if (bytes[at] != '\n' && bytes[at] != '\r') continue;
    lines.push_back(text.slice(begin, at - begin));
    if (bytes[at] == '\r' && at + 1 < bytes.size() && bytes[at + 1] == '\n') ++at;
    begin = at + 1;
  }
  if (begin < bytes.size()) lines.push_back(text.slice(begin, bytes.size() - begin));
  return lines;
}

}  // namespace tandem::chat_template
