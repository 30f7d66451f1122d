#include "model/chat_template/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "model/chat_template/template_error.h"
#include "model/tokenizer/utf8.h"

namespace tandem::chat_template {
namespace {

using Kind = Value::Kind;

// Text that grows up to a limit.
class Output {
 public:
  explicit Output(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  void put(std::string_view bytes, Origin origin = Origin::kMarkup) {
    text_.append(bytes, origin);
    if (text_.size_bytes() > max_bytes_) {
      throw TemplateError{TemplateError::Kind::kLimit, "a value's text is too large", 0};
    }
  }
  void enter() {
    if (++depth_ > kMaxFormatDepth) {
      throw TemplateError{TemplateError::Kind::kLimit, "a value is nested too deeply", 0};
    }
  }
  void leave() { --depth_; }
  int depth() const { return depth_; }
  Text take() { return std::move(text_); }

 private:
  uint64_t max_bytes_;
  Text text_;
  int depth_ = 0;
};

std::string hex_escape(const char* format, uint32_t code) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, format, code);
  return buffer;
}

// Python prints these as they are: everything but separators, controls and the like.
bool prints_in_repr(uint32_t c) {
  return c >= 0x20 && c != 0x7F && !(c >= 0x80 && c <= 0xA0) && c != 0xAD &&
         !(c != 0x20 && is_space(c)) && !(c >= 0x200B && c <= 0x200F) &&
         !(c >= 0x202A && c <= 0x202E) && !(c >= 0x2060 && c <= 0x206F) && c != 0xFEFF &&
         !(c >= 0xE000 && c <= 0xF8FF) && !(c >= 0xFFF0 && c <= 0xFFFB) && c < 0xE0000;
}

void put_repr_character(const Text& text, size_t at, char quote, Output& out) {
  const tokenizer::CodePoint point = tokenizer::decode_utf8(text.bytes(), at);
  const uint32_t c = point.value;
  const Origin origin = text.origin(at);
  if (c == static_cast<uint8_t>(quote) || c == '\\') out.put("\\", origin);
  if (prints_in_repr(c)) {
    out.put(std::string_view(text.bytes()).substr(at, point.size_bytes), origin);
  } else if (c == '\n') {
    out.put("\\n", origin);
  } else if (c == '\r') {
    out.put("\\r", origin);
  } else if (c == '\t') {
    out.put("\\t", origin);
  } else {
    out.put(hex_escape(c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c), origin);
  }
}

void put_repr_string(const Text& text, Output& out) {
  const std::string& bytes = text.bytes();
  const bool has_single = bytes.find('\'') != std::string::npos;
  const bool has_double = bytes.find('"') != std::string::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out.put(std::string_view(&quote, 1));
  for (size_t at = 0; at < bytes.size();) {
    put_repr_character(text, at, quote, out);
    at += tokenizer::decode_utf8(bytes, at).size_bytes;
  }
  out.put(std::string_view(&quote, 1));
}

void put_repr(const Value& value, Output& out) {
  out.enter();
  switch (value.kind()) {
    case Kind::kUndefined: out.put("Undefined"); break;
    case Kind::kNone: out.put("None"); break;
    case Kind::kBool: out.put(value.as_bool() ? "True" : "False"); break;
    case Kind::kInt: out.put(std::to_string(value.as_int())); break;
    case Kind::kFloat: out.put(real_spelling(value.as_real())); break;
    case Kind::kString: put_repr_string(value.as_text(), out); break;
    case Kind::kList:
    case Kind::kTuple: {
      const bool tuple = value.is(Kind::kTuple);
      const Values& items = value.as_items();
      out.put(tuple ? "(" : "[");
      for (size_t i = 0; i < items.size(); ++i) {
        if (i > 0) out.put(", ");
        put_repr(items[i], out);
      }
      out.put(!tuple ? "]" : items.size() == 1 ? ",)" : ")");
      break;
    }
    case Kind::kDict: {
      out.put("{");
      bool first = true;
      for (const auto& [key, item] : value.as_dict().entries()) {
        if (!first) out.put(", ");
        first = false;
        put_repr(key, out);
        out.put(": ");
        put_repr(item, out);
      }
      out.put("}");
      break;
    }
    case Kind::kObject: out.put("<" + value.type_name() + ">"); break;
  }
  out.leave();
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, uint64_t max_bytes) : style_(style), out_(max_bytes) {}

  void put(const Value& value) {
    out_.enter();
    switch (value.kind()) {
      case Kind::kNone: out_.put("null"); break;
      case Kind::kBool: out_.put(value.as_bool() ? "true" : "false"); break;
      case Kind::kInt: out_.put(std::to_string(value.as_int())); break;
      case Kind::kFloat: put_real(value.as_real()); break;
      case Kind::kString: put_string(value.as_text()); break;
      case Kind::kList:
      case Kind::kTuple: put_list(value.as_items()); break;
      case Kind::kDict: put_dict(value.as_dict()); break;
      case Kind::kUndefined:
      case Kind::kObject:
        fail("TypeError: Object of type " + value.type_name() + " is not JSON serializable");
    }
    out_.leave();
  }
  Text take() { return out_.take(); }

 private:
  void put_real(double value) {
    if (std::isnan(value)) return out_.put("NaN");
    if (std::isinf(value)) return out_.put(value > 0 ? "Infinity" : "-Infinity");
    out_.put(real_spelling(value));
  }

  void new_line(int depth) {
    if (style_.indent < 0) return;
    out_.put("\n" + std::string(static_cast<size_t>(depth * style_.indent), ' '));
  }

  // With an indent, Python leaves out the space at the end of a line.
  void separate(size_t index) {
    if (index > 0) {
      const bool trims = style_.indent >= 0 && style_.item_separator == ", ";
      out_.put(trims ? "," : style_.item_separator);
    }
    new_line(out_.depth());
  }

  void put_list(const Values& items) {
    if (items.empty()) return out_.put("[]");
    out_.put("[");
    for (size_t i = 0; i < items.size(); ++i) {
      separate(i);
      put(items[i]);
    }
    new_line(out_.depth() - 1);
    out_.put("]");
  }

  void put_dict(const Dict& dict) {
    if (dict.size() == 0) return out_.put("{}");
    std::vector<size_t> order(dict.size());
    std::iota(order.begin(), order.end(), 0);
    if (style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return key_text(dict.entries()[a].first).bytes() <
               key_text(dict.entries()[b].first).bytes();
      });
    }
    out_.put("{");
    for (size_t i = 0; i < order.size(); ++i) {
      const auto& [key, value] = dict.entries()[order[i]];
      separate(i);
      put_string(key_text(key));
      out_.put(style_.key_separator);
      put(value);
    }
    new_line(out_.depth() - 1);
    out_.put("}");
  }

  static Text key_text(const Value& key) {
    switch (key.kind()) {
      case Kind::kString: return key.as_text();
      case Kind::kNone: return markup("null");
      case Kind::kBool: return markup(key.as_bool() ? "true" : "false");
      case Kind::kInt: return markup(std::to_string(key.as_int()));
      case Kind::kFloat: return markup(real_spelling(key.as_real()));
      default:
        fail("TypeError: keys must be str, int, float, bool or None, not " + key.type_name());
    }
  }

  void put_string(const Text& text) {
    out_.put("\"");
    for (size_t at = 0; at < text.size_bytes();) {
      const tokenizer::CodePoint point = tokenizer::decode_utf8(text.bytes(), at);
      put_character(point, std::string_view(text.bytes()).substr(at, point.size_bytes),
                    text.origin(at));
      at += point.size_bytes;
    }
    out_.put("\"");
  }

  void put_character(const tokenizer::CodePoint& point, std::string_view bytes, Origin origin) {
    constexpr std::string_view kFrom = "\"\\\n\r\t\b\f";
    constexpr std::string_view kTo = "\"\\nrtbf";
    const uint32_t c = point.value;
    if (const size_t known = c < 0x80 ? kFrom.find(static_cast<char>(c)) : kFrom.npos;
        known != kFrom.npos) {
      out_.put(std::string("\\") + kTo[known], origin);
    } else if (c < 0x20) {
      out_.put(hex_escape("\\u%04x", c), origin);
    } else if (c < 0x80 || !style_.ascii_only) {
      out_.put(bytes, origin);
    } else if (c < 0x10000) {
      out_.put(hex_escape("\\u%04x", c), origin);
    } else {
      out_.put(hex_escape("\\u%04x", 0xD800 + ((c - 0x10000) >> 10)), origin);
      out_.put(hex_escape("\\u%04x", 0xDC00 + ((c - 0x10000) & 0x3FF)), origin);
    }
  }

  const JsonStyle& style_;
  Output out_;
};

}  // namespace

Text str_text(const Value& value, uint64_t max_bytes) {
  if (value.is(Kind::kString)) return value.as_text();
  if (value.is(Kind::kUndefined)) return {};
  return repr_text(value, max_bytes);
}

Text repr_text(const Value& value, uint64_t max_bytes) {
  Output out(max_bytes);
  put_repr(value, out);
  return out.take();
}

Text json_text(const Value& value, const JsonStyle& style, uint64_t max_bytes) {
  JsonWriter writer(style, max_bytes);
  writer.put(value);
  return writer.take();
}

std::string real_spelling(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value,
                                    std::chars_format::scientific);
  const std::string scientific(buffer, result.ptr);
  const size_t e = scientific.find('e');
  const int exponent = std::stoi(scientific.substr(e + 1));
  if (exponent < -4 || exponent >= 16) return scientific;
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value,
                                   std::chars_format::fixed);
  std::string spelling(buffer, fixed.ptr);
  if (spelling.find('.') == std::string::npos) spelling += ".0";
  return spelling;
}

}  // namespace tandem::chat_template
