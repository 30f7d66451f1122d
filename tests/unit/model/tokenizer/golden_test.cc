// Goldens of the shared fixtures; each test says why when it is skipped.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <sstream>

#include "model/tokenizer/incremental_decoder.h"
#include "fixtures.h"

namespace tandem::tokenizer {
namespace {

void expect_tokens(const Tokenizer& tokenizer, const nlohmann::json& golden) {
  for (const auto& test : golden.at("cases")) {
    const std::string text = test.at("text");
    const auto ids = test.at("ids").get<std::vector<TokenId>>();
    const auto plain = test.value("ids_plain", ids);
    EXPECT_EQ(ids_of(tokenizer.encode(text, SpecialText::kParsed)), ids) << test.at("name");
    EXPECT_EQ(ids_of(tokenizer.encode(text, SpecialText::kPlain)), plain) << test.at("name");
    const RenderedPrompt content{text, {{text.size(), Origin::kContent}}};
    EXPECT_EQ(ids_of(tokenizer.encode(content)), plain) << test.at("name");
    EXPECT_EQ(tokenizer.decode_bytes(ids, ControlTokens::kShow), text) << test.at("name");
    EXPECT_EQ(tokenizer.decode_bytes(plain, ControlTokens::kShow), text) << test.at("name");
  }
}

TEST(TokenizerGolden, SmolLm2Tokens) {
  const auto golden = shared_fixture("smollm2/tokens.json");
  const auto tokenizer = real_tokenizer();
  if (!golden || !tokenizer) GTEST_SKIP() << "needs shared/fixtures and the SmolLM2 GGUF";
  expect_tokens(*tokenizer, *golden);
}

TEST(TokenizerGolden, TinyGpt2Tokens) {
  const auto golden = shared_fixture("gguf/tokens-gpt-2.json");
  const auto tokenizer = shared_tokenizer("gguf/llama-F32.gguf");
  if (!golden || !tokenizer) GTEST_SKIP() << "needs shared/fixtures";
  expect_tokens(*tokenizer, *golden);
}

TEST(TokenizerGolden, TinyQwen2Tokens) {
  const auto golden = shared_fixture("gguf/tokens-qwen2.json");
  const auto tokenizer = shared_tokenizer("gguf/qwen2-F32.gguf");
  if (!golden || !tokenizer) GTEST_SKIP() << "needs shared/fixtures";
  expect_tokens(*tokenizer, *golden);
}

// llama.cpp's own vocabulary tests: texts and ids in files beside the vocabulary.
void expect_published_ids(const std::string& name) {
  const auto tokenizer = shared_tokenizer("vocab/" + name + ".gguf");
  const auto texts = shared_text("vocab/" + name + ".gguf.inp");
  const auto ids = shared_text("vocab/" + name + ".gguf.out");
  if (!tokenizer || !texts || !ids) GTEST_SKIP() << "needs shared/fixtures/vocab";
  const std::string kSeparator = "\n__ggml_vocab_test__\n";
  std::istringstream lines(*ids);
  std::string line;
  for (size_t at = 0; at <= texts->size() && std::getline(lines, line);) {
    const size_t end = std::min(texts->find(kSeparator, at), texts->size());
    const std::string text = texts->substr(at, end - at);
    std::istringstream numbers(line);
    const std::vector<TokenId> expected{std::istream_iterator<TokenId>(numbers), {}};
    EXPECT_EQ(ids_of(tokenizer->encode(text, SpecialText::kPlain)), expected) << text;
    at = end + kSeparator.size();
  }
}

TEST(TokenizerGolden, PublishedGpt2) { expect_published_ids("gpt-2"); }
TEST(TokenizerGolden, PublishedStarcoder) { expect_published_ids("starcoder"); }
TEST(TokenizerGolden, PublishedRefact) { expect_published_ids("refact"); }

TEST(TokenizerGolden, TinyFileInTheTree) {
  const Tokenizer tokenizer = tiny_tokenizer();
  EXPECT_EQ(tokenizer.vocabulary().size(), 512u);
  const std::string text = "<|im_start|>The thought, 123\n\n \U0001F600";
  const auto parsed = ids_of(tokenizer.encode(text, SpecialText::kParsed));
  const auto plain = ids_of(tokenizer.encode(text, SpecialText::kPlain));
  EXPECT_TRUE(tokenizer.vocabulary().is_control(parsed.front()));
  for (const TokenId id : plain) EXPECT_FALSE(tokenizer.vocabulary().is_control(id));
  EXPECT_LT(parsed.size(), text.size() - std::string("<|im_start|>").size());  // something merged
  EXPECT_EQ(tokenizer.decode_bytes(parsed, ControlTokens::kShow), text);
  EXPECT_EQ(tokenizer.decode_bytes(plain, ControlTokens::kShow), text);
}

// The text of the bytes, the short way: all at once.
std::string text_of(const std::string& bytes) {
  Utf8Stream stream;
  std::string text = stream.feed(bytes);
  return text + stream.finish();
}

std::string fed_in_two(const Tokenizer& tokenizer, ControlTokens control,
                       std::span<const TokenId> ids, size_t cut) {
  IncrementalDecoder decoder(tokenizer, control);
  std::string text = decoder.feed(ids.first(cut));
  EXPECT_EQ(find_invalid_utf8(text), text.size());
  text += decoder.feed(ids.subspan(cut));
  EXPECT_EQ(find_invalid_utf8(text), text.size());
  return text + decoder.finish();
}

TEST(TokenizerGolden, SmolLm2DecodesTheSameForEveryCut) {
  const auto golden = shared_fixture("smollm2/decode.json");
  const auto tokenizer = real_tokenizer();
  if (!golden || !tokenizer) GTEST_SKIP() << "needs shared/fixtures and the SmolLM2 GGUF";
  for (const auto& test : golden->at("cases")) {
    const auto ids = test.at("ids").get<std::vector<TokenId>>();
    const std::string shown = test.at("bytes_b64");
    const std::string skipped = test.value("bytes_skip_special_b64", shown);
    for (const auto control : {ControlTokens::kShow, ControlTokens::kSkip}) {
      const std::string bytes = from_base64(control == ControlTokens::kShow ? shown : skipped);
      ASSERT_EQ(tokenizer->decode_bytes(ids, control), bytes);
      for (size_t cut = 0; cut <= ids.size(); ++cut) {
        ASSERT_EQ(fed_in_two(*tokenizer, control, ids, cut), text_of(bytes));
      }
      IncrementalDecoder one_by_one(*tokenizer, control);
      std::string text;
      for (const TokenId id : ids) text += one_by_one.feed({&id, 1});
      ASSERT_EQ(text + one_by_one.finish(), text_of(bytes));
    }
  }
}

TEST(IncrementalDecoder, EqualsTheWholeDecodeForRandomIds) {
  const Tokenizer tokenizer = toy_tokenizer({"ä ½", "ä½ ł", "ð Ł", "Ġ a"});
  const auto size = static_cast<uint32_t>(tokenizer.vocabulary().size());
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    std::vector<TokenId> ids(1 + random() % 30);
    for (TokenId& id : ids) id = static_cast<TokenId>(random() % size);
    const std::string whole = text_of(tokenizer.decode_bytes(ids, ControlTokens::kSkip));
    IncrementalDecoder decoder(tokenizer, ControlTokens::kSkip);
    std::string text;
    for (const TokenId id : ids) text += decoder.feed({&id, 1});
    ASSERT_EQ(text + decoder.finish(), whole) << "round " << round;
  }
}

TEST(IncrementalDecoder, WaitsForTheRestOfAnEmojiAcrossAControlToken) {
  const Tokenizer tokenizer = toy_tokenizer();
  const TokenId bos = *tokenizer.vocabulary().bos();
  IncrementalDecoder decoder(tokenizer, ControlTokens::kSkip);
  const std::vector<TokenId> head = {0xF0, 0x9F, bos}, tail = {0x98, 0x80};
  EXPECT_EQ(decoder.feed(head), "");
  EXPECT_EQ(decoder.feed(tail), "\U0001F600");
  EXPECT_EQ(decoder.finish(), "");
}

}  // namespace
}  // namespace tandem::tokenizer
