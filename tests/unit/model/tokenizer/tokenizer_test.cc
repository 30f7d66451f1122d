#include "model/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <functional>
#include <map>
#include <random>

#include "fixtures.h"

namespace tandem::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr TokenId kFirstMerge = 256;

TEST(Tokenizer, MergesTheBestRankFirstAndTheLeftmostOfEquals) {
  const Tokenizer tokenizer = toy_tokenizer({"b c", "a b", "a a"});
  // abc: "b c" is better than "a b".
  EXPECT_THAT(ids_of(tokenizer.encode("abc", SpecialText::kPlain)),
              ElementsAre('a', kFirstMerge));
  // aaa: leftmost pair.
  EXPECT_THAT(ids_of(tokenizer.encode("aaa", SpecialText::kPlain)),
              ElementsAre(kFirstMerge + 2, 'a'));
}

TEST(Tokenizer, NeverMergesAcrossWordsOrDigits) {
  const Tokenizer tokenizer = toy_tokenizer({"1 2", "a Ġ", "Ġ b"});
  EXPECT_THAT(ids_of(tokenizer.encode("12", SpecialText::kPlain)), ElementsAre('1', '2'));
  EXPECT_THAT(ids_of(tokenizer.encode("a b", SpecialText::kPlain)),
              ElementsAre('a', kFirstMerge + 2));
}

// What BPE means, the slow way: scan for the best pair until there is none.
std::vector<TokenId> slow_bpe(const Vocabulary& vocabulary, std::string_view word) {
  std::vector<TokenId> ids;
  for (const char c : word) ids.push_back(vocabulary.byte_token(static_cast<uint8_t>(c)));
  while (true) {
    const Vocabulary::Merge* best = nullptr;
    size_t best_at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto* merge = vocabulary.find_merge(ids[i], ids[i + 1]);
      if (merge != nullptr && (best == nullptr || merge->rank < best->rank)) {
        best = merge;
        best_at = i;
      }
    }
    if (best == nullptr) return ids;
    ids[best_at] = best->result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

TEST(Tokenizer, AgreesWithTheDefinitionOfBpeOnRandomWords) {
  const Tokenizer tokenizer = toy_tokenizer(
      {"a b", "b a", "a a", "ab a", "b b", "ab ab", "aa b", "c ab", "abab c", "aba b", "bb a"});
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::string word;
    const size_t size = 1 + random() % 40;
    for (size_t i = 0; i < size; ++i) word.push_back(static_cast<char>('a' + random() % 3));
    ASSERT_EQ(ids_of(tokenizer.encode(word, SpecialText::kPlain)),
              slow_bpe(tokenizer.vocabulary(), word)) << word;
  }
}

TEST(Tokenizer, ReadsSpecialTextOnlyWhereItIsAllowed) {
  const Tokenizer tokenizer = toy_tokenizer();
  const TokenId bos = *tokenizer.vocabulary().bos();
  EXPECT_THAT(ids_of(tokenizer.encode("a<s>b", SpecialText::kParsed)),
              ElementsAre('a', bos, 'b'));
  EXPECT_THAT(ids_of(tokenizer.encode("a<s>", SpecialText::kPlain)),
              ElementsAre('a', '<', 's', '>'));
}

TEST(Tokenizer, TakesTheLongestOfOverlappingSpecials) {
  VocabularyData data = toy_data();
  data.tokens.push_back("<s><s>");
  data.types.push_back(TokenType::kControl);
  const TokenId both = static_cast<TokenId>(data.tokens.size()) - 1;
  const Tokenizer tokenizer = Tokenizer::create(std::move(data)).value();
  const TokenId bos = *tokenizer.vocabulary().bos();
  EXPECT_THAT(ids_of(tokenizer.encode("<s><s><s>", SpecialText::kParsed)),
              ElementsAre(both, bos));
}

TEST(Tokenizer, ContentNeverBecomesAControlToken) {
  const Tokenizer tokenizer = toy_tokenizer();
  const TokenId bos = *tokenizer.vocabulary().bos();
  using enum Origin;
  EXPECT_THAT(ids_of(tokenizer.encode(RenderedPrompt{
                  "<s>x<s>", {{3, kMarkup}, {4, kContent}}})),
              ElementsAre(bos, 'x', '<', 's', '>'));
  // Half markup, half content: no token either way round.
  EXPECT_THAT(ids_of(tokenizer.encode(RenderedPrompt{"<s>", {{2, kMarkup}, {1, kContent}}})),
              ElementsAre('<', 's', '>'));
  EXPECT_THAT(ids_of(tokenizer.encode(RenderedPrompt{"<s>", {{1, kContent}, {2, kMarkup}}})),
              ElementsAre('<', 's', '>'));
  // Two markup spans in a row are one.
  EXPECT_THAT(ids_of(tokenizer.encode(RenderedPrompt{
                  "<s>", {{1, kMarkup}, {0, kContent}, {2, kMarkup}}})),
              ElementsAre(bos));
}

TEST(Tokenizer, EncodesMarkupAndContentBetweenSpecialsAsOneString) {
  const Tokenizer tokenizer = toy_tokenizer({"Ċ Ċ"});
  const TokenId bos = *tokenizer.vocabulary().bos();
  using enum Origin;
  EXPECT_THAT(ids_of(tokenizer.encode(RenderedPrompt{
                  "<s>\n\n", {{4, kMarkup}, {1, kContent}}})),
              ElementsAre(bos, kFirstMerge));
}

TEST(Tokenizer, AddsOneBosOnlyToModelsThatWantIt) {
  VocabularyData data = toy_data();
  data.add_bos = true;
  const Tokenizer wants = Tokenizer::create(std::move(data)).value();
  const TokenId bos = *wants.vocabulary().bos();
  EXPECT_THAT(wants.with_bos({'a'}), ElementsAre(bos, 'a'));
  EXPECT_THAT(wants.with_bos({bos, 'a'}), ElementsAre(bos, 'a'));
  EXPECT_THAT(wants.with_bos({}), ElementsAre(bos));
  EXPECT_THAT(toy_tokenizer().with_bos({'a'}), ElementsAre('a'));
}

TEST(Tokenizer, LeavesOutBytesTheVocabularyLacks) {
  VocabularyData data = toy_data({"a b"});
  data.tokens[4] = "unused4";  // the token of byte 4
  const Tokenizer tokenizer = Tokenizer::create(std::move(data)).value();
  EXPECT_THAT(ids_of(tokenizer.encode("c\x04" "c", SpecialText::kPlain)), ElementsAre('c', 'c'));
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const Tokenizer tokenizer = toy_tokenizer();
  const auto ids = tokenizer.encode("ok\xFF", SpecialText::kPlain);
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(ids.error().message, HasSubstr("byte 2"));
  EXPECT_FALSE(tokenizer.encode(RenderedPrompt{"\xC3", {{1, Origin::kMarkup}}}).ok());
}

TEST(Tokenizer, DecodesExactBytesAndNothingForForeignIds) {
  const Tokenizer tokenizer = toy_tokenizer();
  const TokenId bos = *tokenizer.vocabulary().bos();
  const std::vector<TokenId> ids = {bos, 0xFF, 0x00, bos + 2, 100000, kNoToken};
  EXPECT_EQ(tokenizer.decode_bytes(ids, ControlTokens::kShow),
            std::string("<s>\xFF\0<think>", 12));
  EXPECT_EQ(tokenizer.decode_bytes(ids, ControlTokens::kSkip), std::string("\xFF\0<think>", 9));
}

TEST(TokenizerLoad, RefusesWhatItCantDoByName) {
  const std::map<std::string, std::function<void(VocabularyData&)>> faults = {
      {"llama", [](VocabularyData& d) { d.model = "llama"; }},
      {"falcon-h7", [](VocabularyData& d) { d.pre = "falcon-h7"; }},
      {"0 tokens", [](VocabularyData& d) { d.tokens.clear(); }},
      {"token types", [](VocabularyData& d) { d.types.pop_back(); }},
      {"bos_token_id", [](VocabularyData& d) { d.bos = 100000; }},
      {"padding_token_id 259", [](VocabularyData& d) { d.pad = 259; }},
      {"add_bos_token", [](VocabularyData& d) { d.add_bos = true; d.bos.reset(); }},
      {"two pieces", [](VocabularyData& d) { d.merges = {"ab"}; }},
      {"no token: \"a b\"", [](VocabularyData& d) { d.merges = {"a b"}; }},
      {"not UTF-8", [](VocabularyData& d) { d.tokens[3].assign(1, static_cast<char>(0xFF)); }},
  };
  for (const auto& [message, damage] : faults) {
    VocabularyData data = toy_data();
    damage(data);
    const auto tokenizer = Tokenizer::create(std::move(data));
    ASSERT_FALSE(tokenizer.ok()) << message;
    EXPECT_THAT(tokenizer.error().message, HasSubstr(message));
    EXPECT_THAT(tokenizer.error().field, HasSubstr("tokenizer.ggml."));
  }
}

double thread_cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Quadratic work over a megabyte would take hours, so the generous limit only tells that apart.
TEST(Tokenizer, NeedsNoQuadraticWorkForTextWithoutACut) {
  const Tokenizer tokenizer = toy_tokenizer(
      {"a a", "aa aa", "aaaa aaaa", "Ġ Ġ", "ĠĠ ĠĠ", "ð Ł", "ĺ Ģ", "ðŁ ĺĢ"});
  for (const std::string unit : {"a", " ", "\U0001F600", "<", "9"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    const double start_s = thread_cpu_s();
    const auto ids = tokenizer.encode(text, SpecialText::kParsed);
    ASSERT_TRUE(ids.ok());
    EXPECT_LT(thread_cpu_s() - start_s, 20.0) << unit;
    EXPECT_EQ(tokenizer.decode_bytes(*ids, ControlTokens::kShow), text);
  }
}

}  // namespace
}  // namespace tandem::tokenizer
