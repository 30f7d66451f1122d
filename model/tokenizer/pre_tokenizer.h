#pragma once
// Cuts text into the words inside which BPE merges, by the rule a model file names.

#include <memory>
#include <string_view>
#include <vector>

#include "comm/runtime/result.h"

namespace tandem::tokenizer {

// Immutable after create(); split() may run on any thread. It never changes the text: the pieces
// in order are the text.
class PreTokenizer {
 public:
  // kUnsupported (field tokenizer.ggml.pre) for a name that is not known: guessing one would give
  // other ids than the model was trained on.
  static Result<PreTokenizer> create(std::string_view name);
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // The pieces are views into text. kExhausted when a match exceeds its work limit.
  // Requires: text is valid UTF-8.
  Result<std::vector<std::string_view>> split(std::string_view text) const;

 private:
  struct Expression;
  PreTokenizer();

  std::unique_ptr<const Expression> expression_;
  bool digits_alone_ = false;  // first isolate every \p{N}; what lies between is matched by itself
};

}  // namespace tandem::tokenizer
