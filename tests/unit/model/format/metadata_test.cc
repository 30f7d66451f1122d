#include "model/format/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/format/gguf_file.h"
#include "tests/support/gguf_writer.h"

namespace tandem::format {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Metadata : public testing::Test {
 protected:
  template <typename T>
  void add_scalar(const char* key, ValueType type, T value) {
    writer_.add_raw(key, support::ByteWriter().put(static_cast<uint32_t>(type)).put(value));
  }
  template <typename T>
  void add_array(const char* key, ValueType element, std::initializer_list<T> values) {
    support::ByteWriter out;
    out.put(static_cast<uint32_t>(ValueType::kArray)).put(static_cast<uint32_t>(element));
    out.put(uint64_t{values.size()});
    for (const T value : values) out.put(value);
    writer_.add_raw(key, out);
  }
  GgufFile file() {
    const std::string path = directory_.file("x.gguf");
    support::write_file(path, writer_.bytes());
    Result<GgufFile> opened = GgufFile::open(path);
    CHECK(opened.ok());
    return std::move(opened).value();
  }

  support::TemporaryDirectory directory_;
  support::GgufWriter writer_;
};

TEST_F(Metadata, IntegersOfEveryWidthAndSign) {
  add_scalar("u8", ValueType::kUint8, uint8_t{255});
  add_scalar("i8", ValueType::kInt8, int8_t{-128});
  add_scalar("u16", ValueType::kUint16, uint16_t{65535});
  add_scalar("i16", ValueType::kInt16, int16_t{-2});
  add_scalar("i32", ValueType::kInt32, int32_t{-3});
  add_scalar("u64", ValueType::kUint64, ~uint64_t{0});
  add_scalar("i64", ValueType::kInt64, int64_t{5});
  const GgufFile values = file();
  EXPECT_EQ(values.uint_at("u8").value(), 255u);
  EXPECT_EQ(values.find("i8")->as_int().value(), -128);
  EXPECT_EQ(values.uint_at("u16").value(), 65535u);
  EXPECT_EQ(values.find("i16")->as_int().value(), -2);
  EXPECT_EQ(values.find("i32")->as_int().value(), -3);
  EXPECT_EQ(values.uint_at("u64").value(), ~uint64_t{0});
  EXPECT_EQ(values.uint_at("i64").value(), 5u);
  EXPECT_THAT(values.uint_at("i32").error().message, HasSubstr("not negative"));
  EXPECT_THAT(values.find("u64")->as_int().error().message, HasSubstr("below 2^63"));
}

TEST_F(Metadata, FloatsAndBools) {
  add_scalar("f32", ValueType::kFloat32, 0.5f);
  add_scalar("f64", ValueType::kFloat64, 0.1);
  add_scalar("yes", ValueType::kBool, uint8_t{1});
  const GgufFile values = file();
  EXPECT_EQ(values.float_at("f32").value(), 0.5);
  EXPECT_EQ(values.float_at("f64").value(), 0.1);
  EXPECT_TRUE(values.bool_at("yes").value());
  EXPECT_FALSE(values.uint_at("yes").ok());
  EXPECT_FALSE(values.float_at("yes").ok());
  EXPECT_FALSE(values.bool_at("f32").ok());
}

TEST_F(Metadata, Arrays) {
  add_array("ints", ValueType::kInt16, {int16_t{-1}, int16_t{7}});
  add_array("floats", ValueType::kFloat32, {1.5f, -2.0f});
  add_array("none", ValueType::kInt32, std::initializer_list<int32_t>{});
  add_array("large", ValueType::kUint64, {~uint64_t{0}});
  writer_.add_strings("texts", std::vector<std::string>{"", "half \xc3"});
  const GgufFile values = file();
  EXPECT_THAT(values.find("ints")->as_ints().value(), ElementsAre(-1, 7));
  EXPECT_THAT(values.find("floats")->as_floats().value(), ElementsAre(1.5f, -2.0f));
  EXPECT_TRUE(values.find("none")->as_ints().value().empty());
  const std::span<const std::string_view> texts = values.strings_at("texts").value();
  EXPECT_THAT(std::vector(texts.begin(), texts.end()), ElementsAre("", "half \xc3"));
  EXPECT_FALSE(values.find("large")->as_ints().ok());
  EXPECT_FALSE(values.find("floats")->as_ints().ok());
  EXPECT_FALSE(values.find("ints")->as_floats().ok());
  EXPECT_THAT(values.strings_at("ints").error().message, HasSubstr("it is array of int16"));
}

TEST(Quoted, EscapesAndCuts) {
  EXPECT_EQ(format::quoted("a.b"), "'a.b'");
  EXPECT_EQ(format::quoted("\n\\\xff"), "'\\x0a\\x5c\\xff'");
  EXPECT_EQ(format::quoted(std::string(97, 'x')), "'" + std::string(96, 'x') + "...'");
}

}  // namespace
}  // namespace tandem::format
