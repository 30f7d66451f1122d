#include "model/tokenizer/special_matcher.h"

namespace tandem::tokenizer {
namespace {

uint64_t edge(uint32_t node, char byte) {
  return (uint64_t{node} << 8) | static_cast<uint8_t>(byte);
}

}  // namespace

SpecialMatcher::SpecialMatcher(const Vocabulary& vocabulary) : ids_(1, kNoToken) {
  for (const Vocabulary::Special& special : vocabulary.specials()) {
    first_bytes_.set(static_cast<uint8_t>(special.text.front()));
    uint32_t node = 0;
    for (const char byte : special.text) {
      const auto fresh = static_cast<uint32_t>(ids_.size());
      const auto [it, inserted] = children_.emplace(edge(node, byte), fresh);
      if (inserted) ids_.push_back(kNoToken);
      node = it->second;
    }
    if (ids_[node] == kNoToken) ids_[node] = special.id;  // of equal spellings the first counts
  }
}

SpecialMatcher::Match SpecialMatcher::find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!first_bytes_.test(static_cast<uint8_t>(text[begin]))) continue;
    if (const Match match = longest_at(text, begin); match.size_bytes > 0) return match;
  }
  return {.begin = text.size()};
}

SpecialMatcher::Match SpecialMatcher::longest_at(std::string_view text, size_t begin) const {
  Match best{.begin = begin};
  uint32_t node = 0;
  for (size_t at = begin; at < text.size(); ++at) {
    const auto it = children_.find(edge(node, text[at]));
    if (it == children_.end()) break;
    node = it->second;
    if (ids_[node] == kNoToken) continue;
    best.size_bytes = at + 1 - begin;
    best.id = ids_[node];
  }
  return best;
}

}  // namespace tandem::tokenizer
