#include "model/tokenizer/gguf_vocabulary.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "fixtures.h"

namespace tandem::tokenizer {
namespace {

// The vocabulary of the tiny file with one text in it replaced by another of equal length.
Result<VocabularyData> with_replaced(const std::string& from, const std::string& to) {
  std::string bytes = golden_text("gguf/llama-Q4_0.gguf");
  const size_t at = bytes.find(from);
  EXPECT_NE(at, std::string::npos);
  bytes.replace(at, to.size(), to);
  const std::string path = testing::TempDir() + "gguf_vocabulary_test.gguf";
  std::ofstream(path, std::ios::binary) << bytes;
  const auto file = format::GgufFile::open(path);
  std::remove(path.c_str());
  if (!file) return file.error();
  return vocabulary_from_gguf(*file);
}

TEST(GgufVocabulary, ReadsEveryKey) {
  const auto data = with_replaced("tokenizer.ggml.pre", "tokenizer.ggml.pre");
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->model, "gpt2");
  EXPECT_EQ(data->pre, "gpt-2");
  EXPECT_EQ(data->tokens.size(), 512u);
  EXPECT_EQ(data->types.size(), 512u);
  EXPECT_EQ(data->merges.size(), 252u);
  EXPECT_EQ(data->bos, 508u);
  EXPECT_EQ(data->eos, 510u);
  EXPECT_EQ(data->pad, 511u);
  EXPECT_EQ(data->unk, std::nullopt);
  EXPECT_FALSE(data->add_bos);
}

TEST(GgufVocabulary, NamesAMissingKey) {
  for (const std::string key : {"tokenizer.ggml.model", "tokenizer.ggml.pre",
                                "tokenizer.ggml.tokens"}) {
    std::string other = key;
    other.back() = 'X';
    const auto data = with_replaced(key, other);
    ASSERT_FALSE(data.ok()) << key;
    EXPECT_EQ(data.error().field, key);
  }
}

TEST(GgufVocabulary, RefusesAnUnknownTokenType) {
  // key, type 9 (array), element type 5 (int32), 512 elements, then the first type
  const std::string key = "tokenizer.ggml.token_type";
  const std::string head = key + std::string("\x09\0\0\0\x05\0\0\0\0\x02\0\0\0\0\0\0", 16);
  const auto data = with_replaced(head, head + "\x07");
  ASSERT_FALSE(data.ok());
  EXPECT_EQ(data.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(data.error().field, key);
}

}  // namespace
}  // namespace tandem::tokenizer
