#pragma once
// Token ids to text while they arrive.

#include <span>
#include <string>

#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/utf8.h"

namespace tandem::tokenizer {

// Append-only, and never half a character: what feed() returned is never taken back, and the joined
// text is the same however the ids are cut. Bytes that are no UTF-8 become U+FFFD, one per maximal
// subpart (utf8.h); a character cut off by the end gives exactly one, from finish(). A byte that
// can't start a character is decided at once, so it never stalls the stream.
// One owner, one thread. The tokenizer must outlive it.
class IncrementalDecoder {
 public:
  IncrementalDecoder(const Tokenizer& tokenizer, ControlTokens control)
      : tokenizer_(tokenizer), control_(control) {}

  // The characters these ids complete; holds back at most three bytes.
  std::string feed(std::span<const TokenId> ids) {
    return stream_.feed(tokenizer_.decode_bytes(ids, control_));
  }
  // What is still held back. The decoder is then as new.
  std::string finish() { return stream_.finish(); }

 private:
  const Tokenizer& tokenizer_;
  ControlTokens control_;
  Utf8Stream stream_;
};

}  // namespace tandem::tokenizer
