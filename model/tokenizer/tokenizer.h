#pragma once
// Text to token ids and back, for byte-level BPE vocabularies.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/runtime/result.h"
#include "model/tokenizer/rendered_prompt.h"
#include "model/tokenizer/vocabulary.h"

namespace tandem::tokenizer {

enum class SpecialText {
  kPlain,   // the spelling of a special token is ordinary text
  kParsed,  // it becomes the token: for text whose author may write control tokens
};

enum class ControlTokens { kShow, kSkip };

// Immutable after create(): every const method may run on any thread. Encoding never adds a BOS by
// itself (with_bos does), never normalises, and takes O(n log n) time whatever the text is.
class Tokenizer {
 public:
  // Errors name the key in `field`: kUnsupported for another tokenizer model or an unknown
  // pre-tokenizer, kCorrupt for data that contradict themselves.
  static Result<Tokenizer> create(VocabularyData data);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // kInvalidArgument when text is not UTF-8.
  Result<std::vector<TokenId>> encode(std::string_view text, SpecialText special) const;

  // Special tokens are recognised only where they lie wholly in markup; every run between them,
  // markup and content together, is encoded as one string (DESIGN §2.2). So content can't become a
  // control token, and honest content gives the ids of the reference.
  // kInvalidArgument when the text is not UTF-8. Requires: the spans cover the text.
  Result<std::vector<TokenId>> encode(const RenderedPrompt& prompt) const;

  // ids with the BOS in front, if this model wants one and ids do not begin with it already.
  std::vector<TokenId> with_bos(std::vector<TokenId> ids) const;

  // The exact bytes of ids, which need not be UTF-8 (see IncrementalDecoder for text).
  std::string decode_bytes(std::span<const TokenId> ids, ControlTokens control) const;

  const Vocabulary& vocabulary() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<const State> state);
  Status encode_run(std::string_view text, std::vector<TokenId>& ids) const;
  Status encode_parsed(std::string_view text, std::span<const Span> spans,
                       std::vector<TokenId>& ids) const;

  std::unique_ptr<const State> state_;
};

}  // namespace tandem::tokenizer
