#pragma once
// The byte and stop state machine of one choice: token ids in, text that is safe to send out.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/tokenizer/incremental_decoder.h"

namespace tandem::request {

using tokenizer::TokenId;

struct TextStreamOptions {
  std::vector<std::string> stops = {};  // each non-empty UTF-8
  bool include_stop = false;            // the text ends just after the stop, not just before it
  bool skip_control = true;             // control tokens have no text
};

// What one message to the client may hold. The texts of all deltas joined are the text of the
// choice, their ids joined are its ids (a final EOS and the ids of text that a stop cut away
// included), whether it is streamed or not.
struct TextDelta {
  std::string text;          // whole characters
  std::vector<TokenId> ids;  // those since the last delta with text; empty while text is empty,
                             // except in the last delta of the stream
  bool empty() const { return text.empty() && ids.empty(); }
};

// Guarantees, for any way the ids are cut into feeds:
//   - no byte of a stop string is in any delta (with include_stop: it is there whole, at the end);
//   - text that could still become a stop is held back, and released as soon as it can't;
//   - of several stops the one that ends first wins, of those the longest;
//   - never half a character; one U+FFFD for a character that the end cuts off.
// Pure: no I/O, no clock. One owner, one thread. The tokenizer must outlive it.
class TextStream {
 public:
  // Requires: no stop is empty.
  TextStream(const tokenizer::Tokenizer& tokenizer, TextStreamOptions options);

  // Takes ids up to the one that completes a stop; ids after it belong to nobody (see num_ids).
  // After a stop this delta is the last one and holds all remaining ids. Requires: !finished().
  TextDelta feed(std::span<const TokenId> ids);

  // The sequence ended by itself: releases what was held back. A cut character's U+FFFD may
  // complete a stop. Empty if a stop has ended the stream already.
  TextDelta finish();

  bool finished() const { return finished_; }
  // The stop that ended the stream.
  const std::optional<std::string>& matched_stop() const { return matched_stop_; }
  // Ids taken so far: completion tokens, the id that completes a stop included.
  uint64_t num_ids() const { return num_ids_; }

 private:
  // One stop string and how many of its bytes the text ends with (Knuth-Morris-Pratt).
  struct Matcher {
    std::string stop;
    std::vector<uint32_t> fallback;  // [i]: longest proper border of the first i + 1 bytes
    uint32_t matched = 0;
  };

  static Matcher make_matcher(std::string stop);
  static void advance(Matcher& matcher, char byte);
  // Moves text through the matchers into held_; true when a stop is complete.
  bool scan(const std::string& text);
  void cut_at(const Matcher& matcher);
  // The part of held_ that no stop can claim any more.
  std::string release();
  TextDelta delta(bool last);

  tokenizer::IncrementalDecoder decoder_;
  bool include_stop_;
  std::vector<Matcher> matchers_;
  std::string held_;                  // decided characters, not yet sent
  std::vector<TokenId> pending_ids_;  // taken since the last delta with text
  std::optional<std::string> matched_stop_;
  uint64_t num_ids_ = 0;
  bool finished_ = false;
};

}  // namespace tandem::request
