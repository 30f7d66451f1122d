// Random byte flips in header, metadata and tensor list of a small file: it is refused or loads,
// soon, and never reads outside the map (the sanitizer build watches).

#include <chrono>

#include <gtest/gtest.h>

#include "comm/runtime/rng.h"
#include "model/spec/describe.h"
#include "model/spec/model_spec.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_model.h"

namespace tandem::spec {
namespace {

constexpr int kNumFlips = 1000;
constexpr uint64_t kSeed = 20261129;
constexpr auto kMaxTime = std::chrono::seconds(3);  // 1 s promised

// Touches everything a loader would. True when the file was accepted.
bool load(const std::string& path) {
  const Result<format::GgufFile> file = format::GgufFile::open(path);
  if (!file.ok()) {
    EXPECT_FALSE(file.error().message.empty());
    return false;
  }
  for (const format::MetadataValue& value : file->metadata()) {
    (void)value.as_uint();
    (void)value.as_float();
    (void)value.as_bool();
    (void)value.as_ints();
    (void)value.as_floats();
    if (const auto texts = value.as_strings(); texts.ok()) {
      for (const std::string_view text : *texts) EXPECT_LE(text.size(), file->size_bytes());
    }
  }
  uint64_t sum = 0;
  for (const format::TensorInfo& tensor : file->tensors()) {
    const std::span<const std::byte> bytes = file->tensor_bytes(tensor);
    sum += std::to_integer<uint64_t>(bytes.front()) + std::to_integer<uint64_t>(bytes.back());
  }
  EXPECT_LT(sum, uint64_t{1} << 32);
  const Result<ModelSpec> spec = read_spec(*file);
  if (!spec.ok()) {
    EXPECT_FALSE(spec.error().message.empty());
    return false;
  }
  EXPECT_FALSE(describe(*file, *spec).empty());
  EXPECT_FALSE(describe_json(*file, *spec).empty());
  return true;
}

TEST(Mutation, FlippedBytesAreRefusedOrLoad) {
  support::TemporaryDirectory directory;
  support::TinyModel model;
  model.spec = support::tiny_spec();
  model.type = format::TensorType::kQ4_0;
  model.tokenizer_from = support::golden_model_path("F32");
  const std::vector<std::byte> bytes = support::tiny_model_writer(model).bytes();
  const std::string path = directory.file("flipped.gguf");
  support::write_file(path, bytes);
  ASSERT_TRUE(load(path));
  const uint64_t head = format::GgufFile::open(path)->data_offset();

  SplitMix64 rng(kSeed);
  int num_refused = 0;
  for (int i = 0; i < kNumFlips; ++i) {
    const uint64_t at = rng.below(head);
    const std::byte flipped = bytes[at] ^ static_cast<std::byte>(1 + rng.below(255));
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", flip " << i << " at " << at);
    support::patch_file(path, at, {&flipped, 1});
    const auto start = std::chrono::steady_clock::now();
    if (!load(path)) ++num_refused;
    EXPECT_LT(std::chrono::steady_clock::now() - start, kMaxTime);
    support::patch_file(path, at, {&bytes[at], 1});
  }
  // Most bytes are the text of tokens and may change; lengths, names and shapes may not.
  EXPECT_GT(num_refused, kNumFlips / 10);
  EXPECT_LT(num_refused, kNumFlips);
}

// Eight bytes at once: counts, lengths and offsets become arbitrary 64-bit numbers.
TEST(Mutation, OverwrittenWordsAreRefusedOrLoad) {
  support::TemporaryDirectory directory;
  support::TinyModel model;
  model.spec = support::tiny_spec();
  const std::vector<std::byte> bytes = support::tiny_model_writer(model).bytes();
  const std::string path = directory.file("flipped.gguf");
  support::write_file(path, bytes);
  ASSERT_TRUE(load(path));
  const uint64_t head = format::GgufFile::open(path)->data_offset();
  const uint64_t words[] = {0, ~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 40, 0xffffffff};
  for (uint64_t at = 4; at + 8 <= head; at += 3) {
    for (const uint64_t word : words) {
      SCOPED_TRACE(testing::Message() << word << " at " << at);
      support::patch_file(path, at, std::as_bytes(std::span(&word, 1)));
      load(path);
    }
    support::patch_file(path, at, std::span(bytes).subspan(at, 8));
  }
}

}  // namespace
}  // namespace tandem::spec
