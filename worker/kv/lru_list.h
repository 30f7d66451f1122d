#pragma once
// LruList: cached blocks from least to most recently used; every operation is O(1).
// Owned by BlockPool; loop thread only.

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/runtime/ids.h"

namespace tandem::kv {

class LruList {
 public:
  explicit LruList(uint32_t num_blocks);

  uint32_t size() const { return size_; }
  bool contains(BlockId block) const;
  // The least recently used block.
  std::optional<BlockId> oldest() const;
  // Requires: not contained.
  void push_newest(BlockId block);
  // Requires: contained.
  void remove(BlockId block);
  // Every block, least recently used first: for checks and tests.
  std::vector<BlockId> blocks() const;

 private:
  struct Node {
    uint32_t older = 0;
    uint32_t newer = 0;
    bool linked = false;
  };
  std::vector<Node> nodes_;  // by block; the last one is the ring's sentinel
  uint32_t size_ = 0;
};

}  // namespace tandem::kv
