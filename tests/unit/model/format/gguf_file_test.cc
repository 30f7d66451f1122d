#include "model/format/gguf_file.h"

#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/format/tensor_consumption.h"

namespace tandem::format {
namespace {

std::string golden(const std::string& name) {
  const char* root = std::getenv("TANDEM_SOURCE_DIR");
  return std::string(root != nullptr ? root : ".") + "/tests/golden/gguf/" + name;
}

TEST(GgufFile, ReadsEverySupportedTensorType) {
  struct Case { const char* name; TensorType type; uint64_t q_bytes; };
  const Case cases[] = {
      {"F32", TensorType::kF32, 128 * 128 * 4},       {"F16", TensorType::kF16, 128 * 128 * 2},
      {"BF16", TensorType::kBF16, 128 * 128 * 2},     {"Q8_0", TensorType::kQ8_0, 128 * 4 * 34},
      {"Q4_0", TensorType::kQ4_0, 128 * 4 * 18},      {"Q4_1", TensorType::kQ4_1, 128 * 4 * 20},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const Result<GgufFile> file = GgufFile::open(golden(std::string("llama-") + c.name + ".gguf"));
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file->version(), 3u);
    EXPECT_EQ(file->alignment(), c.type == TensorType::kQ8_0 ? 64u : 32u);
    EXPECT_EQ(file->tensors().size(), 30u);
    const TensorInfo* q = file->find_tensor("blk.1.attn_q.weight");
    ASSERT_NE(q, nullptr);
    EXPECT_EQ(q->type, c.type);
    EXPECT_EQ(q->size_bytes, c.q_bytes);
    EXPECT_EQ(shape_text(*q), "[128, 128]");
    EXPECT_EQ(file->tensor_bytes(*q).size(), c.q_bytes);
    EXPECT_EQ(q->offset % file->alignment(), 0u);
  }
}

TEST(GgufFile, GivesTypedMetadata) {
  const Result<GgufFile> file = GgufFile::open(golden("llama-F32.gguf"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->string_at("general.architecture").value(), "llama");
  EXPECT_EQ(file->uint_at("llama.block_count").value(), 3u);
  EXPECT_DOUBLE_EQ(file->float_at("llama.rope.freq_base").value(), 10000.0);
  EXPECT_FALSE(file->bool_at("tokenizer.ggml.add_bos_token").value());
  const auto tokens = file->strings_at("tokenizer.ggml.tokens");
  ASSERT_TRUE(tokens.ok());
  ASSERT_EQ(tokens->size(), 512u);
  EXPECT_EQ((*tokens)[0], "!");
  const auto types = file->find("tokenizer.ggml.token_type")->as_ints();
  ASSERT_TRUE(types.ok());
  EXPECT_EQ(types->size(), 512u);
  EXPECT_EQ((*types)[0], 1);
  EXPECT_EQ((*types)[511], 3);
}

TEST(GgufFile, RefusesOtherTypesNamingTheKey) {
  const Result<GgufFile> file = GgufFile::open(golden("llama-F32.gguf"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto wrong = file->uint_at("general.architecture");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().field, "general.architecture");
  EXPECT_THAT(wrong.error().message, testing::HasSubstr("must be an integer, it is string"));
  const auto missing = file->float_at("llama.nothing");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, testing::HasSubstr("'llama.nothing' is missing"));
}

TEST(GgufFile, MissingFileSaysSo) {
  const Result<GgufFile> file = GgufFile::open("/nonexistent/x.gguf");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(file.error().message, testing::HasSubstr("/nonexistent/x.gguf"));
}

TEST(GgufFile, DirectoryIsNoModel) {
  const Result<GgufFile> file = GgufFile::open("/tmp");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::kInvalidArgument);
}

TEST(GgufFile, DigestTellsFilesApartAndIsStable) {
  const Result<GgufFile> a = GgufFile::open(golden("llama-F16.gguf"));
  const Result<GgufFile> b = GgufFile::open(golden("llama-BF16.gguf"));
  const Result<GgufFile> again = GgufFile::open(golden("llama-F16.gguf"));
  ASSERT_TRUE(a.ok() && b.ok() && again.ok());
  EXPECT_EQ(a->digest().size(), 32u);
  EXPECT_EQ(a->digest(), again->digest());
  EXPECT_NE(a->digest(), b->digest());
}

TEST(TensorConsumption, NamesWhatWasNotOrTwiceConsumed) {
  const Result<GgufFile> file = GgufFile::open(golden("llama-F32.gguf"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  TensorConsumption consumption(*file);
  for (const TensorInfo& tensor : file->tensors()) {
    if (tensor.name == "output_norm.weight") continue;
    ASSERT_TRUE(consumption.take(tensor.name).ok());
  }
  const Status unfinished = consumption.finish();
  ASSERT_FALSE(unfinished.ok());
  EXPECT_EQ(unfinished.error().field, "output_norm.weight");
  const auto twice = consumption.take("output.weight");
  ASSERT_FALSE(twice.ok());
  EXPECT_THAT(twice.error().message, testing::HasSubstr("'output.weight' is consumed twice"));
  EXPECT_FALSE(consumption.take("nonsense").ok());
  EXPECT_TRUE(consumption.leave("output_norm.weight").ok());
  EXPECT_TRUE(consumption.finish().ok());
}

}  // namespace
}  // namespace tandem::format
