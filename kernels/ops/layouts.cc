#include "kernels/ops/layouts.h"

#include "kernels/tensor/check.h"

namespace tandem::ops {

int tree_split(int num_leaves) {
  CHECK_KERNEL(num_leaves >= 2 && num_leaves <= kMaxLeaves);
  int split = 1;
  while (split * 2 < num_leaves) split *= 2;
  return split;
}

}  // namespace tandem::ops
