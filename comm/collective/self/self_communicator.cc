#include "comm/collective/self/self_communicator.h"

#include "comm/runtime/check.h"

namespace tandem::collective {

using tensor::ConstTensorView;
using tensor::TensorView;

void SelfCommunicator::copy(tensor::Stream& stream, const void* from, void* to,
                            int64_t size_bytes) {
  if (from == to || size_bytes == 0) return;
  CHECK_EQ(size_bytes % static_cast<int64_t>(sizeof(float)), 0);
  const int64_t count = size_bytes / static_cast<int64_t>(sizeof(float));
  // A tree of one leaf is a copy.
  backend_.tree_sum(stream, ConstTensorView::f32(static_cast<const float*>(from), 1, count), 1,
                    TensorView::f32(static_cast<float*>(to), 1, count));
}

void SelfCommunicator::broadcast(tensor::Stream&, void*, int64_t size_bytes, int32_t root) {
  CHECK_GE(size_bytes, 0);
  CHECK_EQ(root, 0);
}

void SelfCommunicator::all_gather(tensor::Stream& stream, const void* mine, void* out,
                                  SizesPerRank sizes) {
  CHECK_EQ(sizes.size(), 1U);
  copy(stream, mine, out, sizes[0]);
}

void SelfCommunicator::all_to_all(tensor::Stream& stream, const void* in, SizesPerRank send_sizes,
                                  void* out, SizesPerRank receive_sizes) {
  CHECK_EQ(send_sizes.size(), 1U);
  CHECK_EQ(receive_sizes.size(), 1U);
  CHECK_EQ(send_sizes[0], receive_sizes[0]);
  copy(stream, in, out, send_sizes[0]);
}

// There is no other rank: a call is always a programming error.
void SelfCommunicator::send(tensor::Stream&, const void*, int64_t, int32_t) {
  CHECK(!"send to oneself");
}

void SelfCommunicator::receive(tensor::Stream&, void*, int64_t, int32_t) {
  CHECK(!"receive from oneself");
}

void SelfCommunicator::tree_reduce(tensor::Stream& stream, const TreeReduction& reduction) {
  CHECK_EQ(reduction.owned.size(), 1U);
  CHECK((reduction.owned[0] == LeafRange{0, reduction.num_leaves}));
  CHECK_EQ(reduction.partials.rows, reduction.out.rows);  // the one sub-tree is the whole sum
  if (reduction.partials.data == reduction.out.data) return;
  backend_.tree_sum(stream, reduction.partials, 1, reduction.out);
}

}  // namespace tandem::collective
