#pragma once
// Exchange of device memory between the ranks of one instance. One abstract class; self/ (one
// rank), later thread/, mpi/ and nccl/ implement it; factory/ makes them.
//
// Contract of every operation:
//  - Every rank of the instance calls the same operations in the same order with matching sizes;
//    control flow that reaches one never depends on values only one rank has.
//  - It is ordered by the stream it is given; buffers may be touched again after the stream.
//  - Zero bytes are allowed. A failing peer or device throws tensor::DeviceError: the rank stops.
//  - There is no floating-point all_reduce: its order of additions would depend on sizes and ranks.
//    Partial sums go through tree_reduce, whose order depends on the number of leaves alone.

#include <cstdint>
#include <span>

#include "comm/collective/canonical_tree.h"
#include "kernels/tensor/stream.h"
#include "kernels/tensor/tensor_view.h"

namespace tandem::collective {

// Sizes in bytes per rank; pieces lie one after the other in rank order. [size()]
using SizesPerRank = std::span<const int64_t>;

// One sum over leaves that are spread over the ranks.
struct TreeReduction {
  // Sums of the maximal canonical sub-trees this rank owns, in order:
  // f32 [num_subtrees * num_rows, N], sub-tree-major.
  tensor::ConstTensorView partials;
  // f32 [num_rows, N], on every rank; may be the first num_rows rows of partials.
  tensor::TensorView out;
  int32_t num_leaves = 1;
  std::span<const LeafRange> owned;  // leaves of each rank, in rank order, covering all. [size()]
};

// Used by the compute thread alone, which owns it.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int32_t rank() const = 0;
  virtual int32_t size() const = 0;

  // data of rank `root` to every rank.
  virtual void broadcast(tensor::Stream& stream, void* data, int64_t size_bytes, int32_t root) = 0;

  // out = the pieces of all ranks in rank order, on every rank. Rank r sends sizes[r] bytes.
  // mine may be this rank's place in out.
  virtual void all_gather(tensor::Stream& stream, const void* mine, void* out,
                          SizesPerRank sizes) = 0;

  // Sends send_sizes[r] bytes to rank r and receives receive_sizes[r] from it. in and out must not
  // overlap.
  virtual void all_to_all(tensor::Stream& stream, const void* in, SizesPerRank send_sizes,
                          void* out, SizesPerRank receive_sizes) = 0;

  // Point to point. Requires: `peer` is another rank and makes the matching call.
  virtual void send(tensor::Stream& stream, const void* data, int64_t size_bytes,
                    int32_t peer) = 0;
  virtual void receive(tensor::Stream& stream, void* data, int64_t size_bytes, int32_t peer) = 0;

  // The sum of all leaves in the canonical tree, bit-equal on every rank and for every ownership.
  virtual void tree_reduce(tensor::Stream& stream, const TreeReduction& reduction) = 0;
};

}  // namespace tandem::collective
