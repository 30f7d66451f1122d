#pragma once
// Writes JSON text by hand: the output is valid UTF-8 JSON whatever the input bytes are.

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::gateway {

// Appends `text` as a JSON string, quotes included. Each maximal invalid UTF-8 subpart becomes one
// U+FFFD (Unicode 15, table 3-7 and section 3.9).
void append_json_string(std::string& out, std::string_view text);

// Builds one JSON value. A value type used on one thread; the caller keeps the nesting right
// (every key followed by one value, every begin by its end).
class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& string(std::string_view text);
  JsonWriter& integer(int64_t number);
  JsonWriter& unsigned_integer(uint64_t number);
  // Shortest decimal that reads back equal; null for what JSON can't say (NaN, infinities).
  JsonWriter& number(double value);
  JsonWriter& boolean(bool flag);
  JsonWriter& null();
  // Requires: `json` is one valid JSON value.
  JsonWriter& raw(std::string_view json);

  std::string take() && { return std::move(out_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();

  std::string out_;
  bool need_comma_ = false;
};

}  // namespace tandem::gateway
