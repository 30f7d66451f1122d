#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "coordinator/gateway/json_reader.h"
#include "coordinator/gateway/json_writer.h"

namespace tandem::gateway {
namespace {

std::string written(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string field_of(std::string_view body, const JsonLimits& limits = {}) {
  const Result<Json> result = read_json_object(body, limits);
  return result.ok() ? "(accepted)" : result.error().field;
}

TEST(JsonWriter, EscapesWhatJsonReserves) {
  EXPECT_EQ(written("a\"b\\c\n\r\t\x01\x7f"), R"("a\"b\\c\n\r\t\u0001\u007f")");
  EXPECT_EQ(written(std::string_view("\0", 1)), R"("\u0000")");
}

TEST(JsonWriter, ReplacesInvalidUtf8OncePerMaximalSubpart) {
  EXPECT_EQ(written("\xf0\x9f\x98\x80"), "\"\xf0\x9f\x98\x80\"");
  EXPECT_EQ(written("\xf0\x9f\x98"), "\"\xef\xbf\xbd\"");          // cut off
  EXPECT_EQ(written("\xff!"), "\"\xef\xbf\xbd!\"");
  EXPECT_EQ(written("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");  // surrogate
}

TEST(JsonWriter, EveryByteStringReadsBack) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string bytes{static_cast<char>(first), static_cast<char>(second)};
      EXPECT_TRUE(read_json(written(bytes)).ok()) << first << ' ' << second;
    }
  }
}

TEST(JsonWriter, NestsAndSeparates) {
  JsonWriter json;
  json.begin_object().key("a").begin_array().integer(-1).begin_object().end_object().null();
  json.end_array().key("b").boolean(true).key("c").number(0.1).key("d").raw("[]").end_object();
  EXPECT_EQ(std::move(json).take(), R"({"a":[-1,{},null],"b":true,"c":0.1,"d":[]})");
}

TEST(JsonWriter, NumbersThatJsonLacksAreNull) {
  JsonWriter json;
  json.begin_array().number(NAN).number(INFINITY).number(-INFINITY).end_array();
  EXPECT_EQ(std::move(json).take(), "[null,null,null]");
}

TEST(JsonReader, AcceptsAnObject) {
  const auto json = read_json_object(R"({"a":[1,-2,0.5,"\u00e9",null,true,{}]})");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->at("a").size(), 7u);
  EXPECT_EQ(json->at("a")[3], "\xc3\xa9");
}

TEST(JsonReader, WholeBodyFailuresNameTheBody) {
  for (const char* body :
       {"", "  ", "{:", "[]", "5", "\"x\"", "null", "{", "{}x", "{}{}", "{'a':1}"}) {
    EXPECT_EQ(field_of(body), "body") << body;
  }
}

TEST(JsonReader, BareNonFiniteNumbersNameTheirField) {
  for (const char* value : {"NaN", "Infinity", "-Infinity", "1e400", "-1e400", "nan", "+1", "01"}) {
    EXPECT_EQ(field_of(std::string(R"({"model":"m","temperature":)") + value + "}"), "temperature")
        << value;
  }
  EXPECT_EQ(field_of(R"({"messages":[{"content":NaN}]})"), "messages[0].content");
  EXPECT_EQ(field_of(R"({"prompt":[1,2,NaN]})"), "prompt[2]");
}

TEST(JsonReader, DepthIsBounded) {
  const auto nested = [](size_t depth) {
    return R"({"a":)" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  EXPECT_EQ(field_of(nested(63)), "(accepted)");
  EXPECT_EQ(field_of(nested(64)), "a[0][0]");
  EXPECT_EQ(field_of(R"({"a":)" + std::string(100'000, '[')), "a[0][0]");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  EXPECT_EQ(field_of(objects), "a.a.a");
}

TEST(JsonReader, NumberOfValuesIsBounded) {
  const JsonLimits limits{.max_depth = 64, .max_values = 4};
  EXPECT_EQ(field_of(R"({"a":[1,2]})", limits), "(accepted)");
  EXPECT_EQ(field_of(R"({"a":[1,2,3]})", limits), "a[2]");
}

TEST(JsonReader, RefusesDuplicateKeysAndBrokenText) {
  EXPECT_EQ(field_of(R"({"a":1,"a":1})"), "a");
  EXPECT_EQ(field_of("{\"a\":\"\xff\"}"), "a");
  EXPECT_EQ(field_of(R"({"a":"\ud800"})"), "a");
}

TEST(JsonReader, MessagesStayShort) {
  const std::string key(100'000, 'k');
  const auto result = read_json_object("{\"" + key + "\":NaN}");
  ASSERT_FALSE(result.ok());
  EXPECT_LT(result.error().field.size(), 100u);
  EXPECT_LT(result.error().message.size(), 200u);
}

}  // namespace
}  // namespace tandem::gateway
