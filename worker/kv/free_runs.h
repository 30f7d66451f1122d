#pragma once
// FreeRuns: the free blocks of a pool as maximal runs of neighbours, so that a lease gets blocks
// that lie together in memory (a transfer merges neighbours into one piece).
// Owned by BlockPool; loop thread only; never evicts, never knows leases.

#include <cstdint>
#include <map>
#include <vector>

#include "comm/runtime/ids.h"

namespace tandem::kv {

class FreeRuns {
 public:
  explicit FreeRuns(uint32_t num_blocks);

  uint32_t size() const { return size_; }
  bool contains(BlockId block) const;

  // Takes `count` blocks: from one run when one of the first few is long enough, else from the
  // lowest runs. Deterministic. Requires: count <= size().
  std::vector<BlockId> take(uint32_t count);

  // Returns one block. Requires: it isn't free.
  void put(BlockId block);

  // True when runs are maximal, disjoint and add up to size().
  bool consistent(uint32_t num_blocks) const;

 private:
  using Runs = std::map<uint32_t, uint32_t>;  // begin -> length

  void take_front(Runs::iterator run, uint32_t count, std::vector<BlockId>& out);

  Runs runs_;
  uint32_t size_ = 0;
};

}  // namespace tandem::kv
