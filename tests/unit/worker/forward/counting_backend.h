#pragma once
// A backend that counts allocations and otherwise is the one it wraps.

#include <memory>

#include "kernels/ops/backend.h"

namespace tandem::forward::testing {

class CountingBackend final : public ops::Backend {
 public:
  explicit CountingBackend(std::unique_ptr<ops::Backend> real) : real_(std::move(real)) {}

  int num_allocations = 0;

  ops::Capabilities capabilities() const override { return real_->capabilities(); }
  const char* name() const override { return real_->name(); }
  std::string numerics_revision() const override { return real_->numerics_revision(); }
  tensor::Buffer allocate(int64_t size_bytes) override {
    ++num_allocations;
    return real_->allocate(size_bytes);
  }
  std::unique_ptr<tensor::Stream> make_stream() override {
    ++num_allocations;
    return real_->make_stream();
  }
  std::unique_ptr<ops::PackedMatrix> pack(const ops::RawMatrix& raw,
                                          const ops::MatrixSlice& slice) override {
    ++num_allocations;
    return real_->pack(raw, slice);
  }
  void upload(tensor::Stream& s, const void* host, void* device, int64_t bytes) override {
    real_->upload(s, host, device, bytes);
  }
  void download(tensor::Stream& s, const void* device, void* host, int64_t bytes) override {
    real_->download(s, device, host, bytes);
  }
  void embed(tensor::Stream& s, const ops::TokenRows& tokens, const ops::PackedMatrix& table,
             tensor::TensorView out) override {
    real_->embed(s, tokens, table, out);
  }
  void rms_norm(tensor::Stream& s, tensor::ConstTensorView x, const float* weight, float eps,
                tensor::TensorView out) override {
    real_->rms_norm(s, x, weight, eps, out);
  }
  void matmul(tensor::Stream& s, tensor::ConstTensorView x, const ops::PackedMatrix& w,
              tensor::TensorView out) override {
    real_->matmul(s, x, w, out);
  }
  void matmul_leaves(tensor::Stream& s, tensor::ConstTensorView x, const ops::PackedMatrix& w,
                     const ops::LeafLayout& leaves, tensor::TensorView partials) override {
    real_->matmul_leaves(s, x, w, leaves, partials);
  }
  void matmul_tree(tensor::Stream& s, tensor::ConstTensorView x, const ops::PackedMatrix& w,
                   const ops::LeafLayout& leaves, tensor::TensorView out) override {
    real_->matmul_tree(s, x, w, leaves, out);
  }
  void tree_sum(tensor::Stream& s, tensor::ConstTensorView partials, int num_leaves,
                tensor::TensorView out) override {
    real_->tree_sum(s, partials, num_leaves, out);
  }
  void rope(tensor::Stream& s, tensor::TensorView x, int64_t head_dim,
            const ops::RaggedBatch& batch, const ops::RopeTable& table) override {
    real_->rope(s, x, head_dim, batch, table);
  }
  void append_kv(tensor::Stream& s, tensor::ConstTensorView k, tensor::ConstTensorView v,
                 const ops::RaggedBatch& batch, const ops::KvLayerView& kv) override {
    real_->append_kv(s, k, v, batch, kv);
  }
  void attention(tensor::Stream& s, const ops::AttentionInput& input,
                 tensor::TensorView out) override {
    real_->attention(s, input, out);
  }
  void silu_mul(tensor::Stream& s, tensor::ConstTensorView gate, tensor::ConstTensorView up,
                tensor::TensorView out) override {
    real_->silu_mul(s, gate, up, out);
  }
  void add(tensor::Stream& s, tensor::ConstTensorView x, tensor::ConstTensorView y,
           tensor::TensorView out) override {
    real_->add(s, x, y, out);
  }
  void gather_rows(tensor::Stream& s, tensor::ConstTensorView x, const uint32_t* rows,
                   tensor::TensorView out) override {
    real_->gather_rows(s, x, rows, out);
  }

 private:
  std::unique_ptr<ops::Backend> real_;
};

}  // namespace tandem::forward::testing
