#pragma once
// An instance of one rank: nothing leaves the device. Makes no MPI call.

#include "comm/collective/communicator.h"
#include "kernels/ops/backend.h"

namespace tandem::collective {

// Checks its arguments as strictly as the others, so that code tested on one rank fits many.
class SelfCommunicator final : public Communicator {
 public:
  // backend outlives this; it copies on the device.
  explicit SelfCommunicator(ops::Backend& backend) : backend_(backend) {}

  int32_t rank() const override { return 0; }
  int32_t size() const override { return 1; }
  void broadcast(tensor::Stream& stream, void* data, int64_t size_bytes, int32_t root) override;
  void all_gather(tensor::Stream& stream, const void* mine, void* out,
                  SizesPerRank sizes) override;
  void all_to_all(tensor::Stream& stream, const void* in, SizesPerRank send_sizes, void* out,
                  SizesPerRank receive_sizes) override;
  void send(tensor::Stream& stream, const void* data, int64_t size_bytes, int32_t peer) override;
  void receive(tensor::Stream& stream, void* data, int64_t size_bytes, int32_t peer) override;
  void tree_reduce(tensor::Stream& stream, const TreeReduction& reduction) override;

 private:
  // Bytes of whole floats, as the op set copies f32 rows.
  void copy(tensor::Stream& stream, const void* from, void* to, int64_t size_bytes);

  ops::Backend& backend_;
};

}  // namespace tandem::collective
