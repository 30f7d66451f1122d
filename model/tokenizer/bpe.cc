#include "model/tokenizer/bpe.h"

#include <queue>

#include "comm/runtime/check.h"

namespace tandem::tokenizer {
namespace {

constexpr uint32_t kEnd = UINT32_MAX;

// A piece of the word in a doubly linked list; id kNoToken once it was merged into its left one.
struct Symbol {
  TokenId id = kNoToken;
  uint32_t previous = kEnd;
  uint32_t next = kEnd;
};

// A merge that was possible when it was queued; stale if either side has changed since.
struct Candidate {
  uint32_t rank = 0;
  uint32_t left = 0;
  TokenId left_id = kNoToken;
  TokenId right_id = kNoToken;
  TokenId result = kNoToken;
};

struct Later {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  }
};

class Word {
 public:
  Word(const Vocabulary& vocabulary, std::string_view bytes) : vocabulary_(vocabulary) {
    CHECK_LT(bytes.size(), size_t{kEnd});
    symbols_.reserve(bytes.size());
    for (const char byte : bytes) {
      const TokenId id = vocabulary.byte_token(static_cast<uint8_t>(byte));
      if (id == kNoToken) continue;
      const auto index = static_cast<uint32_t>(symbols_.size());
      if (index > 0) symbols_.back().next = index;
      symbols_.push_back({.id = id, .previous = index > 0 ? index - 1 : kEnd});
    }
    for (uint32_t i = 0; i + 1 < symbols_.size(); ++i) queue(i);
  }

  void merge_all() {
    while (!candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      Symbol& left = symbols_[best.left];
      if (left.id != best.left_id || left.next == kEnd) continue;
      Symbol& right = symbols_[left.next];
      if (right.id != best.right_id) continue;
      left.id = best.result;
      right.id = kNoToken;
      left.next = right.next;
      if (left.next != kEnd) {
        symbols_[left.next].previous = best.left;
        queue(best.left);
      }
      if (left.previous != kEnd) queue(left.previous);
    }
  }

  void append_ids(std::vector<TokenId>& ids) const {
    if (symbols_.empty()) return;
    for (uint32_t i = 0; i != kEnd; i = symbols_[i].next) ids.push_back(symbols_[i].id);
  }

 private:
  // Requires: symbol `left` has a right neighbour.
  void queue(uint32_t left) {
    const TokenId left_id = symbols_[left].id;
    const TokenId right_id = symbols_[symbols_[left].next].id;
    const Vocabulary::Merge* merge = vocabulary_.find_merge(left_id, right_id);
    if (merge == nullptr) return;
    candidates_.push({merge->rank, left, left_id, right_id, merge->result});
  }

  const Vocabulary& vocabulary_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate, std::vector<Candidate>, Later> candidates_;
};

}  // namespace

void bpe_encode(const Vocabulary& vocabulary, std::string_view word, std::vector<TokenId>& ids) {
  Word symbols(vocabulary, word);
  symbols.merge_all();
  symbols.append_ids(ids);
}

}  // namespace tandem::tokenizer
