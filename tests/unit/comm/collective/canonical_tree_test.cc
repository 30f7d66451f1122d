#include "comm/collective/canonical_tree.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace tandem::collective {
namespace {

// The expression that a list of additions computes, e.g. "((0+1)+2)".
std::string expression(int32_t num_leaves, const std::vector<TreeAdd>& adds) {
  std::vector<std::string> slots(static_cast<size_t>(num_leaves));
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = std::to_string(i);
  for (const TreeAdd& add : adds) {
    std::string& to = slots[static_cast<size_t>(add.to)];
    to = "(" + to + "+" + slots[static_cast<size_t>(add.from)] + ")";
  }
  return slots[0];
}

TEST(CanonicalTree, Shapes) {
  EXPECT_EQ(expression(1, tree_adds(1)), "0");
  EXPECT_EQ(expression(2, tree_adds(2)), "(0+1)");
  EXPECT_EQ(expression(3, tree_adds(3)), "((0+1)+2)");
  EXPECT_EQ(expression(4, tree_adds(4)), "((0+1)+(2+3))");
  EXPECT_EQ(expression(5, tree_adds(5)), "(((0+1)+(2+3))+4)");
  EXPECT_EQ(expression(7, tree_adds(7)), "(((0+1)+(2+3))+((4+5)+6))");
  EXPECT_EQ(expression(8, tree_adds(8)), "(((0+1)+(2+3))+((4+5)+(6+7)))");
}

TEST(CanonicalTree, OwnedSubtreesOfUnevenRuns) {
  using Ranges = std::vector<LeafRange>;
  EXPECT_EQ(owned_subtrees(3, {0, 3}), (Ranges{{0, 3}}));
  EXPECT_EQ(owned_subtrees(3, {1, 3}), (Ranges{{1, 2}, {2, 3}}));
  EXPECT_EQ(owned_subtrees(8, {1, 7}), (Ranges{{1, 2}, {2, 4}, {4, 6}, {6, 7}}));
  EXPECT_EQ(owned_subtrees(5, {2, 2}), Ranges{});
}

// Every way to give runs of leaves to up to 4 ranks yields the same additions.
TEST(CanonicalTree, OwnershipNeverChangesTheSum) {
  for (int32_t n = 1; n <= 8; ++n) {
    for (int32_t a = 0; a <= n; ++a) {
      for (int32_t b = a; b <= n; ++b) {
        for (int32_t c = b; c <= n; ++c) {
          std::vector<LeafRange> all;
          std::vector<TreeAdd> adds;
          for (const LeafRange owned : {LeafRange{0, a}, {a, b}, {b, c}, {c, n}}) {
            for (const LeafRange& subtree : owned_subtrees(n, owned)) {
              all.push_back(subtree);
              for (const TreeAdd& add : tree_adds_within(subtree)) adds.push_back(add);
            }
          }
          for (const TreeAdd& add : tree_adds_above(n, all)) adds.push_back(add);
          EXPECT_EQ(expression(n, adds), expression(n, tree_adds(n))) << n << a << b << c;
        }
      }
    }
  }
}

TEST(CanonicalTreeDeathTest, UncoveredLeafIsAProgrammingError) {
  EXPECT_DEATH(tree_adds_above(3, {{0, 2}}), "CHECK failed");
}

}  // namespace
}  // namespace tandem::collective
