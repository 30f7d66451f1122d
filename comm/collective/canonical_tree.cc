#include "comm/collective/canonical_tree.h"

#include <cstddef>

#include "comm/runtime/check.h"
#include "kernels/ops/layouts.h"

namespace tandem::collective {
namespace {

int32_t size(LeafRange r) { return r.end - r.begin; }
LeafRange left(LeafRange r) { return {r.begin, r.begin + ops::tree_split(size(r))}; }
LeafRange right(LeafRange r) { return {r.begin + ops::tree_split(size(r)), r.end}; }

void collect_owned(LeafRange tree, LeafRange owned, std::vector<LeafRange>& out) {
  if (tree.end <= owned.begin || tree.begin >= owned.end) return;
  if (owned.begin <= tree.begin && tree.end <= owned.end) {
    out.push_back(tree);
    return;
  }
  collect_owned(left(tree), owned, out);
  collect_owned(right(tree), owned, out);
}

// Post-order walk; stops at `done` sub-trees, of which the next expected one is done[next].
void collect_adds(LeafRange tree, const std::vector<LeafRange>& done, size_t& next,
                  std::vector<TreeAdd>& out) {
  if (next < done.size() && done[next] == tree) {
    ++next;
    return;
  }
  CHECK_GE(size(tree), 2);  // a leaf that no sub-tree covers
  collect_adds(left(tree), done, next, out);
  collect_adds(right(tree), done, next, out);
  out.push_back({tree.begin, right(tree).begin});
}

std::vector<LeafRange> single_leaves(LeafRange range) {
  std::vector<LeafRange> leaves;
  for (int32_t i = range.begin; i < range.end; ++i) leaves.push_back({i, i + 1});
  return leaves;
}

}  // namespace

std::vector<TreeAdd> tree_adds(int32_t num_leaves) {
  CHECK_GE(num_leaves, 1);
  return tree_adds_within({0, num_leaves});
}

std::vector<LeafRange> owned_subtrees(int32_t num_leaves, LeafRange owned) {
  CHECK(0 <= owned.begin && owned.begin <= owned.end && owned.end <= num_leaves);
  std::vector<LeafRange> out;
  collect_owned({0, num_leaves}, owned, out);
  return out;
}

std::vector<TreeAdd> tree_adds_above(int32_t num_leaves, const std::vector<LeafRange>& subtrees) {
  std::vector<TreeAdd> out;
  size_t next = 0;
  collect_adds({0, num_leaves}, subtrees, next, out);
  CHECK_EQ(next, subtrees.size());
  return out;
}

std::vector<TreeAdd> tree_adds_within(LeafRange subtree) {
  CHECK_GE(size(subtree), 1);
  std::vector<TreeAdd> out;
  size_t next = 0;
  collect_adds(subtree, single_leaves(subtree), next, out);
  return out;
}

}  // namespace tandem::collective
