#pragma once
// The vocabulary as a GGUF file states it.

#include "comm/runtime/result.h"
#include "model/format/gguf_file.h"
#include "model/tokenizer/vocabulary.h"

namespace tandem::tokenizer {

// Copies the keys tokenizer.ggml.*. Errors name the key: kNotFound when model, pre or tokens is
// missing (a pre-tokenizer is never guessed), kInvalidArgument for another type, kCorrupt for a
// value that no token id or token type can have. The rest is checked by Vocabulary::create().
Result<VocabularyData> vocabulary_from_gguf(const format::GgufFile& file);

}  // namespace tandem::tokenizer
