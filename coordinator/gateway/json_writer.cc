#include "coordinator/gateway/json_writer.h"

#include <charconv>
#include <cmath>

#include "model/tokenizer/utf8.h"

namespace tandem::gateway {
namespace {

void append_escaped(std::string& out, char c) {
  constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default: break;
  }
  const auto byte = static_cast<uint8_t>(c);
  if (byte >= 0x20 && byte != 0x7f) {
    out += c;
    return;
  }
  out += "\\u00";
  out += kHex[byte >> 4];
  out += kHex[byte & 15];
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  std::string repaired;
  if (tokenizer::find_invalid_utf8(text) != text.size()) {
    tokenizer::Utf8Stream stream;
    repaired = stream.feed(text);
    repaired += stream.finish();
    text = repaired;
  }
  out += '"';
  for (const char c : text) append_escaped(out, c);
  out += '"';
}

void JsonWriter::separate() {
  if (need_comma_) out_ += ',';
  need_comma_ = true;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_ += bracket;
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  out_ += bracket;
  need_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  append_json_string(out_, name);
  out_ += ':';
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::string(std::string_view text) {
  separate();
  append_json_string(out_, text);
  return *this;
}

JsonWriter& JsonWriter::integer(int64_t number) { return raw(std::to_string(number)); }

JsonWriter& JsonWriter::unsigned_integer(uint64_t number) { return raw(std::to_string(number)); }

JsonWriter& JsonWriter::number(double value) {
  if (!std::isfinite(value)) return null();
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return raw({text, static_cast<size_t>(end - text)});
}

JsonWriter& JsonWriter::boolean(bool flag) { return raw(flag ? "true" : "false"); }

JsonWriter& JsonWriter::null() { return raw("null"); }

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  out_ += json;
  return *this;
}

}  // namespace tandem::gateway
