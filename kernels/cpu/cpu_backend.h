#pragma once
// The CPU backend: one driver over a table of leaf computations.

#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/kernel_table.h"
#include "kernels/ops/backend.h"

namespace tandem::cpu {

class ThreadPool;

// Every op is finished when it returns. Work is split over threads by output rows, by rows of
// tokens or by (sequence, KV head) only, so bits don't depend on the number of threads.
class CpuBackend final : public ops::Backend {
 public:
  // table: of static storage; this machine must be able to run it. revision: of the kernels'
  // sources. Requires: 1 <= threads.
  CpuBackend(const KernelTable& table, std::string revision, int threads);
  ~CpuBackend() override;

  ops::Capabilities capabilities() const override;
  const char* name() const override { return table_.name; }
  std::string numerics_revision() const override;
  tensor::Buffer allocate(int64_t size_bytes) override;
  std::unique_ptr<tensor::Stream> make_stream() override;
  std::unique_ptr<ops::PackedMatrix> pack(const ops::RawMatrix& raw,
                                          const ops::MatrixSlice& slice) override;

  void upload(tensor::Stream& stream, const void* host, void* device, int64_t size_bytes) override;
  void download(tensor::Stream& stream, const void* device, void* host,
                int64_t size_bytes) override;
  void embed(tensor::Stream& stream, const ops::TokenRows& tokens, const ops::PackedMatrix& table,
             tensor::TensorView out) override;
  void rms_norm(tensor::Stream& stream, tensor::ConstTensorView x, const float* weight, float eps,
                tensor::TensorView out) override;
  void matmul(tensor::Stream& stream, tensor::ConstTensorView x, const ops::PackedMatrix& w,
              tensor::TensorView out) override;
  void matmul_leaves(tensor::Stream& stream, tensor::ConstTensorView x, const ops::PackedMatrix& w,
                     const ops::LeafLayout& leaves, tensor::TensorView partials) override;
  void matmul_tree(tensor::Stream& stream, tensor::ConstTensorView x, const ops::PackedMatrix& w,
                   const ops::LeafLayout& leaves, tensor::TensorView out) override;
  void tree_sum(tensor::Stream& stream, tensor::ConstTensorView partials, int num_leaves,
                tensor::TensorView out) override;
  void rope(tensor::Stream& stream, tensor::TensorView x, int64_t head_dim,
            const ops::RaggedBatch& batch, const ops::RopeTable& table) override;
  void append_kv(tensor::Stream& stream, tensor::ConstTensorView k, tensor::ConstTensorView v,
                 const ops::RaggedBatch& batch, const ops::KvLayerView& kv) override;
  void attention(tensor::Stream& stream, const ops::AttentionInput& input,
                 tensor::TensorView out) override;
  void silu_mul(tensor::Stream& stream, tensor::ConstTensorView gate, tensor::ConstTensorView up,
                tensor::TensorView out) override;
  void add(tensor::Stream& stream, tensor::ConstTensorView x, tensor::ConstTensorView y,
           tensor::TensorView out) override;
  void gather_rows(tensor::Stream& stream, tensor::ConstTensorView x, const uint32_t* rows,
                   tensor::TensorView out) override;

 private:
  // Calls fn(begin, end, member) over a static split of [0, count); on the caller alone if
  // count * work_per_item (roughly: multiply-adds) is too small to be worth waking others.
  template <class F>
  void parallel_for(int64_t count, int64_t work_per_item, const F& fn);

  void run_matmul(tensor::ConstTensorView x, const ops::PackedMatrix& w, MatmulTask task);
  void grow_matmul_scratch(int64_t cols);

  const KernelTable& table_;
  const std::string revision_;
  std::unique_ptr<ThreadPool> pool_;
  std::vector<tensor::Buffer> matmul_scratch_;     // one per member; grows in pack() only
  std::vector<tensor::Buffer> attention_scratch_;  // one per member
};

}  // namespace tandem::cpu
