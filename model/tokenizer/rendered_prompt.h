#pragma once
// A prompt with provenance: which bytes were written by the template's author and which came from
// the request. The chat template produces it, the tokenizer consumes it.

#include <string>
#include <vector>

namespace tandem::tokenizer {

enum class Origin : char {
  kMarkup = 0,   // literals of the template and values of the model's own files
  kContent = 1,  // anything that came with a request
};

struct Span {
  size_t size_bytes = 0;
  Origin origin = Origin::kMarkup;
  bool operator==(const Span&) const = default;
};

// text is UTF-8; the spans cover it exactly, in order, and neighbours differ in origin.
struct RenderedPrompt {
  std::string text;
  std::vector<Span> spans;
};

}  // namespace tandem::tokenizer
