#pragma once
// The one order in which partial sums are added (docs/ARCHITECTURE.md, determinism). n leaves are
// split at the largest power of two below n, each side again:
//
//   n = 3: (0 + 1) + 2        n = 5: ((0 + 1) + (2 + 3)) + 4
//
// The order depends on n alone, so a sum has the same bits however the leaves are spread over
// ranks. Pure functions over leaf indices; the numbers are added elsewhere.

#include <cstdint>
#include <vector>

namespace tandem::collective {

// Leaves begin .. end - 1.
struct LeafRange {
  int32_t begin = 0;
  int32_t end = 0;
  bool operator==(const LeafRange&) const = default;
};

// slot[to] += slot[from]. A sub-tree's sum lies in the slot of its first leaf.
struct TreeAdd {
  int32_t to = 0;
  int32_t from = 0;
  bool operator==(const TreeAdd&) const = default;
};

// The additions that sum all leaves into slot 0, in order. Requires: num_leaves >= 1.
std::vector<TreeAdd> tree_adds(int32_t num_leaves);

// The largest sub-trees of the tree over num_leaves that lie within `owned`, left to right: what a
// rank that owns these leaves may add up on its own. Each is a canonical tree again, so
// Backend::tree_sum adds it. Requires: owned within [0, num_leaves).
std::vector<LeafRange> owned_subtrees(int32_t num_leaves, LeafRange owned);

// The additions left when every listed sub-tree is already summed into its first slot. Requires:
// the sub-trees (those of all ranks, in order) cover every leaf exactly once.
std::vector<TreeAdd> tree_adds_above(int32_t num_leaves, const std::vector<LeafRange>& subtrees);

// The additions inside one sub-tree, into the slot of its first leaf.
std::vector<TreeAdd> tree_adds_within(LeafRange subtree);

}  // namespace tandem::collective
