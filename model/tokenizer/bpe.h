#pragma once
// Byte-pair merging of one word.

#include <string_view>
#include <vector>

#include "model/tokenizer/vocabulary.h"

namespace tandem::tokenizer {

// Appends the ids of word to ids: starting from single bytes, the pair with the lowest rank merges
// first, the leftmost of equals. O(n log n) in the bytes of the word, whatever they are.
// A byte that the vocabulary has no token for is left out before merging, as the reference does.
void bpe_encode(const Vocabulary& vocabulary, std::string_view word, std::vector<TokenId>& ids);

}  // namespace tandem::tokenizer
