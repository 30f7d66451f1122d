#pragma once
// Finds the special tokens of a vocabulary in text.

#include <bitset>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/tokenizer/vocabulary.h"

namespace tandem::tokenizer {

// A trie over the spellings. Immutable; any thread may search it.
class SpecialMatcher {
 public:
  explicit SpecialMatcher(const Vocabulary& vocabulary);

  struct Match {
    size_t begin = 0;
    size_t size_bytes = 0;  // 0: none
    TokenId id = kNoToken;
  };
  // The leftmost special token in text[from, end), the longest of those that start there.
  Match find(std::string_view text, size_t from) const;

 private:
  Match longest_at(std::string_view text, size_t begin) const;

  std::bitset<256> first_bytes_;
  std::unordered_map<uint64_t, uint32_t> children_;  // node << 8 | byte -> node
  std::vector<TokenId> ids_;                         // [node]; kNoToken inside a spelling
};

}  // namespace tandem::tokenizer
