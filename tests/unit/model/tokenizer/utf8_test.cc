#include "model/tokenizer/utf8.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem::tokenizer {
namespace {

std::string repaired(std::string_view bytes) {
  Utf8Stream stream;
  std::string text = stream.feed(bytes);
  text += stream.finish();
  return text;
}

TEST(Utf8, RoundTripsTheBordersOfEveryLength) {
  for (const uint32_t code : {0x0u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xD7FFu, 0xE000u, 0xFFFFu,
                              0x10000u, 0x10FFFFu}) {
    std::string text;
    append_utf8(code, text);
    EXPECT_EQ(find_invalid_utf8(text), text.size()) << code;
    EXPECT_EQ(decode_utf8(text, 0).value, code);
    EXPECT_EQ(decode_utf8(text, 0).size_bytes, text.size());
    EXPECT_EQ(repaired(text), text);
  }
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(find_invalid_utf8("ab\xFF"), 2u);
  EXPECT_EQ(find_invalid_utf8("a\xC0\x80"), 1u);          // overlong
  EXPECT_EQ(find_invalid_utf8("\xED\xA0\x80"), 0u);       // surrogate
  EXPECT_EQ(find_invalid_utf8("x\xF4\x90\x80\x80"), 1u);  // above U+10FFFF
  EXPECT_EQ(find_invalid_utf8("\xE4\xBD"), 0u);           // cut
  EXPECT_EQ(find_invalid_utf8("\x80"), 0u);
}

TEST(Utf8Stream, ReplacesEachMaximalSubpartOnce) {
  EXPECT_EQ(repaired("\xFF" "a"), "\uFFFD" "a");
  EXPECT_EQ(repaired("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(repaired("\xF0\x9F\x98x"), "\uFFFDx");
  EXPECT_EQ(repaired("\xE4\xE4\xBD\xA0"), "\uFFFD\u4F60");
  EXPECT_EQ(repaired("\xC0\x80"), "\uFFFD\uFFFD");
  EXPECT_EQ(repaired("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(repaired("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
}

TEST(Utf8Stream, HoldsBackAnUnfinishedCharacterAndNothingElse) {
  Utf8Stream stream;
  EXPECT_EQ(stream.feed("a\xF0\x9F"), "a");
  EXPECT_EQ(stream.feed("\x98"), "");
  EXPECT_EQ(stream.feed("\x80" "b"), "\U0001F600b");
  EXPECT_EQ(stream.feed("\xFF"), "\uFFFD");  // decided at once
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, IsAsNewAfterFinish) {
  Utf8Stream stream;
  EXPECT_EQ(stream.feed("\xE4"), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.feed("\xBD"), "\uFFFD");  // not the continuation of what was finished
  EXPECT_EQ(stream.finish(), "");
}

}  // namespace
}  // namespace tandem::tokenizer
