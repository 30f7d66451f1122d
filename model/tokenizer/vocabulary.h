#pragma once
// The vocabulary of a byte-level BPE tokenizer: plain data as a model file states it, and the
// checked index that encoding and decoding work with.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "comm/runtime/result.h"

namespace tandem::tokenizer {

using TokenId = uint32_t;
inline constexpr TokenId kNoToken = UINT32_MAX;

// Values as in GGUF's tokenizer.ggml.token_type.
enum class TokenType : int32_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct VocabularyData {
  std::string model;                // "gpt2": byte-level BPE; the only one supported
  std::string pre;                  // name of the pre-tokenizer, e.g. "smollm"
  std::vector<std::string> tokens;  // in byte-level spelling (U+0120 is a space)
  std::vector<TokenType> types;     // [tokens.size()], or empty: all normal
  std::vector<std::string> merges;  // "left right", best first
  std::optional<TokenId> bos, eos, unk, pad;
  bool add_bos = false;
};

// Immutable after create(); any thread may read it. It never splits or merges text itself.
class Vocabulary {
 public:
  // kUnsupported: another model than "gpt2". kCorrupt: sizes, types, ids or merges contradict each
  // other (a merge of pieces that are no tokens, an id outside the vocabulary). field is the key.
  static Result<Vocabulary> create(VocabularyData data);

  size_t size() const { return bytes_.size(); }
  // The exact bytes the token stands for; control tokens are their own text. Empty for an id
  // outside the vocabulary, because rows that only pad an embedding matrix have no text.
  std::string_view bytes(TokenId id) const;
  // True for tokens that carry structure and no text (control and unknown); they are what
  // "skip special" leaves out.
  bool is_control(TokenId id) const;
  // The one-byte token, or kNoToken when the vocabulary lacks it.
  TokenId byte_token(uint8_t byte) const { return byte_tokens_[byte]; }

  struct Merge {
    uint32_t rank = 0;  // smaller merges first
    TokenId result = kNoToken;
  };
  // nullptr when the pair does not merge.
  const Merge* find_merge(TokenId left, TokenId right) const;

  struct Special {
    std::string text;
    TokenId id = kNoToken;
  };
  // Tokens that are recognised in markup as a whole: control and user-defined ones.
  const std::vector<Special>& specials() const { return specials_; }

  std::optional<TokenId> bos() const { return bos_; }
  std::optional<TokenId> eos() const { return eos_; }
  bool add_bos() const { return add_bos_; }

 private:
  Status index_tokens(const VocabularyData& data);
  Status index_merges(const VocabularyData& data);

  std::vector<std::string> bytes_;
  std::vector<TokenType> types_;
  std::array<TokenId, 256> byte_tokens_{};
  std::unordered_map<uint64_t, Merge> merges_;  // key: left id << 32 | right id
  std::vector<Special> specials_;
  std::optional<TokenId> bos_, eos_;
  bool add_bos_ = false;
};

}  // namespace tandem::tokenizer
