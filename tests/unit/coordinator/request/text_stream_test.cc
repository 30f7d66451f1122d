#include "coordinator/request/text_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "model/tokenizer/utf8.h"

namespace tandem::request {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using tokenizer::Tokenizer;
using tokenizer::TokenType;
using tokenizer::VocabularyData;

// Ids are positions in `texts`; "<eos>" is a control token, a spelling such as "\xF0" a raw byte.
class Words {
 public:
  explicit Words(const std::vector<std::string>& texts) : tokenizer_(make(texts)) {}
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  static Tokenizer make(const std::vector<std::string>& texts) {
    VocabularyData data;
    data.model = "gpt2";
    data.pre = "smollm";
    for (const std::string& text : texts) {
      data.types.push_back(text == "<eos>" ? TokenType::kControl : TokenType::kNormal);
      data.tokens.push_back(text == "<eos>" ? text : spelled(text));
    }
    return Tokenizer::create(std::move(data)).value();
  }
  static std::string spelled(const std::string& bytes) {
    std::string out;
    for (const char c : bytes) {
      const auto byte = static_cast<uint8_t>(c);
      const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
                             byte >= 0xAE;
      const uint32_t stand_in = byte < 0x21 ? 0x100u + byte
                                : byte < 0xA1 ? 0x121u + byte - 0x7F : 0x143u;
      tokenizer::append_utf8(printable ? byte : stand_in, out);
    }
    return out;
  }
  Tokenizer tokenizer_;
};

// Every delta of a run that is fed one id at a time and then finished.
struct Streamed {
  std::vector<TextDelta> deltas;
  std::string text;
  std::vector<TokenId> ids;
  std::optional<std::string> stop;
  uint64_t num_ids = 0;
};

void append(Streamed& run, TextDelta delta) {
  run.text += delta.text;
  run.ids.insert(run.ids.end(), delta.ids.begin(), delta.ids.end());
  run.deltas.push_back(std::move(delta));
}

Streamed run_in_cuts(const Words& words, TextStreamOptions options, std::span<const TokenId> ids,
                const std::vector<size_t>& sizes) {
  TextStream stream(words.tokenizer(), std::move(options));
  Streamed run;
  size_t at = 0;
  for (const size_t size : sizes) {
    if (stream.finished()) break;
    append(run, stream.feed(ids.subspan(at, size)));
    at += size;
  }
  append(run, stream.finish());
  run.stop = stream.matched_stop();
  run.num_ids = stream.num_ids();
  return run;
}

Streamed run_one_by_one(const Words& words, TextStreamOptions options,
                   const std::vector<TokenId>& ids) {
  return run_in_cuts(words, std::move(options), ids, std::vector<size_t>(ids.size(), 1));
}

TEST(TextStream, NeverSendsAnyPartOfAStopThatSpansTokens) {
  const Words words({"say ", "kap", "pa", "-m", "u!", "more"});
  const Streamed run = run_one_by_one(words, {.stops = {"kappa-mu"}}, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(run.text, "say ");
  for (size_t i = 1; i < run.deltas.size(); ++i) EXPECT_EQ(run.deltas[i].text, "");
  EXPECT_EQ(run.stop, "kappa-mu");
  EXPECT_THAT(run.ids, ElementsAre(0, 1, 2, 3, 4));  // "more" was not taken
  EXPECT_EQ(run.num_ids, 5u);
}

TEST(TextStream, IncludeStopEndsExactlyAfterIt) {
  const Words words({"say ", "kap", "pa", "-m", "u!"});
  const Streamed run = run_one_by_one(
      words, {.stops = {"kappa-mu"}, .include_stop = true}, {0, 1, 2, 3, 4});
  EXPECT_EQ(run.text, "say kappa-mu");
}

TEST(TextStream, FindsAStopInsideOneToken) {
  const Words words({"aXb"});
  const Streamed run = run_one_by_one(words, {.stops = {"X"}}, {0});
  EXPECT_EQ(run.text, "a");
  EXPECT_THAT(run.ids, ElementsAre(0));
}

TEST(TextStream, ReleasesHeldTextAsSoonAsItCantBecomeAStop) {
  const Words words({"kap", "pa", "?"});
  TextStream stream(words.tokenizer(), {.stops = {"kappa-mu"}});
  const std::vector<TokenId> ids = {0, 1, 2};
  EXPECT_TRUE(stream.feed(std::span(ids).subspan(0, 1)).empty());
  EXPECT_TRUE(stream.feed(std::span(ids).subspan(1, 1)).empty());
  const TextDelta delta = stream.feed(std::span(ids).subspan(2, 1));
  EXPECT_EQ(delta.text, "kappa?");
  EXPECT_THAT(delta.ids, ElementsAre(0, 1, 2));
}

TEST(TextStream, KeepsOnlyTheTailThatMayStillMatch) {
  const Words words({"aab", "aac"});
  TextStream stream(words.tokenizer(), {.stops = {"aabaaa"}});
  const std::vector<TokenId> ids = {0, 0, 1};
  EXPECT_EQ(stream.feed(ids).text, "aabaabaac");
  EXPECT_TRUE(stream.finish().empty());
}

TEST(TextStream, ReleasesHeldTextAndEosIdAtTheEnd) {
  const Words words({"kap", "<eos>"});
  const Streamed run = run_one_by_one(words, {.stops = {"kappa"}}, {0, 1});
  EXPECT_EQ(run.text, "kap");
  EXPECT_THAT(run.ids, ElementsAre(0, 1));
  EXPECT_EQ(run.stop, std::nullopt);
}

TEST(TextStream, ShowsControlTokensWhenAsked) {
  const Words words({"a", "<eos>"});
  EXPECT_EQ(run_one_by_one(words, {.skip_control = false}, {0, 1}).text, "a<eos>");
  EXPECT_EQ(run_one_by_one(words, {}, {0, 1}).text, "a");
}

TEST(TextStream, LastDeltaCarriesIdsWithoutText) {
  const Words words({"a", "<eos>"});
  TextStream stream(words.tokenizer(), {});
  const std::vector<TokenId> ids = {0, 1};
  EXPECT_THAT(stream.feed(std::span(ids).first(1)).ids, ElementsAre(0));
  EXPECT_TRUE(stream.feed(std::span(ids).last(1)).empty());
  const TextDelta last = stream.finish();
  EXPECT_EQ(last.text, "");
  EXPECT_THAT(last.ids, ElementsAre(1));
}

TEST(TextStream, TheStopThatEndsFirstWins) {
  const Words words({"xabcd"});
  EXPECT_EQ(run_one_by_one(words, {.stops = {"abcd", "bc"}}, {0}).stop, "bc");
  EXPECT_EQ(run_one_by_one(words, {.stops = {"abcd", "bc"}}, {0}).text, "xa");
  EXPECT_EQ(run_one_by_one(words, {.stops = {"bc", "abc"}}, {0}).stop, "abc");
  EXPECT_EQ(run_one_by_one(words, {.stops = {"bc", "abc"}}, {0}).text, "x");
}

TEST(TextStream, SendsACharacterOnlyWhenItIsWhole) {
  const Words words({"\xF0", "\x9F", "\x98", "\x80"});
  const Streamed run = run_one_by_one(words, {}, {0, 1, 2, 3});
  EXPECT_EQ(run.text, "\U0001F600");
  ASSERT_EQ(run.deltas.size(), 5u);
  EXPECT_TRUE(run.deltas[2].empty());
  EXPECT_THAT(run.deltas[3].ids, ElementsAre(0, 1, 2, 3));
}

TEST(TextStream, CutCharacterGivesOneReplacementAtTheEnd) {
  const Words words({"a", "\xF0\x9F", "\x98", "\xFF"});
  EXPECT_EQ(run_one_by_one(words, {}, {0, 1, 2}).text, "a\uFFFD");
  const Streamed run = run_one_by_one(words, {}, {3, 0});
  EXPECT_EQ(run.text, "\uFFFD" "a");
  EXPECT_EQ(run.deltas[0].text, "\uFFFD");  // a lone 0xFF never waits
}

TEST(TextStream, NothingFollowsAStop) {
  const Words words({"X", "y"});
  TextStream stream(words.tokenizer(), {.stops = {"X"}});
  const std::vector<TokenId> ids = {0, 1};
  const TextDelta delta = stream.feed(ids);
  EXPECT_EQ(delta.text, "");
  EXPECT_THAT(delta.ids, ElementsAre(0));
  EXPECT_TRUE(stream.finished());
  EXPECT_TRUE(stream.finish().empty());
  EXPECT_EQ(stream.num_ids(), 1u);
}

// The whole text at once: the earliest end of any stop, of those the longest.
std::string cut_whole(const Words& words, const TextStreamOptions& options,
                      const std::vector<TokenId>& ids, std::optional<std::string>& stop) {
  tokenizer::Utf8Stream utf8;
  std::string text = utf8.feed(
      words.tokenizer().decode_bytes(ids, tokenizer::ControlTokens::kSkip));
  text += utf8.finish();
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& candidate : options.stops) {
      if (candidate.size() > longest && text.substr(0, end).ends_with(candidate)) {
        longest = candidate.size();
        stop = candidate;
      }
    }
    if (longest > 0) return text.substr(0, options.include_stop ? end : end - longest);
  }
  return text;
}

TEST(TextStream, EqualsTheWholeTextForEveryCut) {
  const Words words({"a", "b", "ab", "ba", "aab", "\xC3", "\xA9", "\xE4\xBD", "\xA0", "<eos>"});
  const std::vector<std::string> all_stops = {"ab", "aba", "bb", "babb", "\u00E9", "b\u4F60",
                                              "a\u00E9" "a", "\uFFFD" "a", "aaaa"};
  std::mt19937 random(3);
  for (int round = 0; round < 5000; ++round) {
    TextStreamOptions options{.include_stop = random() % 2 == 0};
    for (const std::string& stop : all_stops) {
      if (random() % 3 == 0) options.stops.push_back(stop);
    }
    std::vector<TokenId> ids(random() % 16);
    for (TokenId& id : ids) id = static_cast<TokenId>(random() % 10);
    std::vector<size_t> sizes;
    for (size_t left = ids.size(); left > 0; left -= sizes.back()) {
      sizes.push_back(1 + random() % std::min<size_t>(left, 4));
    }
    std::optional<std::string> stop;
    const std::string whole = cut_whole(words, options, ids, stop);
    const Streamed run = run_in_cuts(words, options, ids, sizes);
    ASSERT_EQ(run.text, whole) << "round " << round;
    ASSERT_EQ(run.stop, stop) << "round " << round;
    ASSERT_EQ(run.ids.size(), run.num_ids);
    ASSERT_TRUE(std::equal(run.ids.begin(), run.ids.end(), ids.begin())) << "round " << round;
    if (!stop) {
      ASSERT_EQ(run.ids, ids);
    }
    for (size_t i = 0; i + 1 < run.deltas.size(); ++i) {
      const std::string& text = run.deltas[i].text;
      ASSERT_EQ(tokenizer::find_invalid_utf8(text), text.size()) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace tandem::request
