#include "model/tokenizer/tokenizer.h"

#include <utility>

#include "model/tokenizer/bpe.h"
#include "model/tokenizer/pre_tokenizer.h"
#include "model/tokenizer/special_matcher.h"
#include "model/tokenizer/utf8.h"

namespace tandem::tokenizer {
namespace {

Status check_utf8(std::string_view text) {
  const size_t bad = find_invalid_utf8(text);
  if (bad == text.size()) return {};
  return Error{ErrorCode::kInvalidArgument,
               "text is not valid UTF-8 at byte " + std::to_string(bad), {}};
}

// Spans with neighbours of one origin joined, so that a token may lie across their border.
std::vector<Span> joined(std::span<const Span> spans) {
  std::vector<Span> result;
  for (const Span& span : spans) {
    if (span.size_bytes == 0) continue;
    if (!result.empty() && result.back().origin == span.origin) {
      result.back().size_bytes += span.size_bytes;
    } else {
      result.push_back(span);
    }
  }
  return result;
}

}  // namespace

struct Tokenizer::State {
  Vocabulary vocabulary;
  PreTokenizer pre_tokenizer;
  SpecialMatcher specials;
};

Tokenizer::Tokenizer(std::unique_ptr<const State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::create(VocabularyData data) {
  const std::string pre = data.pre;
  Result<Vocabulary> vocabulary = Vocabulary::create(std::move(data));
  if (!vocabulary) return vocabulary.error();
  Result<PreTokenizer> pre_tokenizer = PreTokenizer::create(pre);
  if (!pre_tokenizer) return pre_tokenizer.error();
  SpecialMatcher specials(*vocabulary);
  return Tokenizer(std::make_unique<const State>(
      State{.vocabulary = std::move(vocabulary).value(),
            .pre_tokenizer = std::move(pre_tokenizer).value(),
            .specials = std::move(specials)}));
}

const Vocabulary& Tokenizer::vocabulary() const { return state_->vocabulary; }

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, SpecialText special) const {
  if (Status status = check_utf8(text); !status) return status.error();
  const Span all{.size_bytes = text.size(),
                 .origin = special == SpecialText::kParsed ? Origin::kMarkup : Origin::kContent};
  std::vector<TokenId> ids;
  if (Status status = encode_parsed(text, {&all, 1}, ids); !status) return status.error();
  return ids;
}

Result<std::vector<TokenId>> Tokenizer::encode(const RenderedPrompt& prompt) const {
  size_t covered = 0;
  for (const Span& span : prompt.spans) covered += span.size_bytes;
  CHECK_EQ(covered, prompt.text.size());
  if (Status status = check_utf8(prompt.text); !status) return status.error();
  std::vector<TokenId> ids;
  const Status status = encode_parsed(prompt.text, joined(prompt.spans), ids);
  if (!status) return status.error();
  return ids;
}

Status Tokenizer::encode_parsed(std::string_view text, std::span<const Span> spans,
                                std::vector<TokenId>& ids) const {
  size_t run_begin = 0;  // of the text that is not encoded yet
  size_t span_begin = 0;
  for (const Span& span : spans) {
    const size_t span_end = span_begin + span.size_bytes;
    size_t from = span.origin == Origin::kMarkup ? span_begin : span_end;
    while (from < span_end) {
      const auto match = state_->specials.find(text.substr(0, span_end), from);
      if (match.size_bytes == 0) break;
      const Status status = encode_run(text.substr(run_begin, match.begin - run_begin), ids);
      if (!status) return status;
      ids.push_back(match.id);
      from = run_begin = match.begin + match.size_bytes;
    }
    span_begin = span_end;
  }
  return encode_run(text.substr(run_begin), ids);
}

Status Tokenizer::encode_run(std::string_view text, std::vector<TokenId>& ids) const {
  const auto words = state_->pre_tokenizer.split(text);
  if (!words) return words.error();
  for (const std::string_view word : *words) bpe_encode(state_->vocabulary, word, ids);
  return {};
}

std::vector<TokenId> Tokenizer::with_bos(std::vector<TokenId> ids) const {
  const Vocabulary& vocabulary = state_->vocabulary;
  if (!vocabulary.add_bos() || !vocabulary.bos()) return ids;
  if (!ids.empty() && ids.front() == *vocabulary.bos()) return ids;
  ids.insert(ids.begin(), *vocabulary.bos());
  return ids;
}

std::string Tokenizer::decode_bytes(std::span<const TokenId> ids, ControlTokens control) const {
  std::string out;
  for (const TokenId id : ids) {
    if (control == ControlTokens::kSkip && state_->vocabulary.is_control(id)) continue;
    out += state_->vocabulary.bytes(id);
  }
  return out;
}

}  // namespace tandem::tokenizer
