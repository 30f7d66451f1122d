#pragma once
// The op set: everything a forward pass may ask of a device. One abstract class, all pure virtual;
// implementations live in kernels/cpu and kernels/cuda and are made in kernels/backends only.
//
// Contract of every op:
//  - It is ordered by its stream, allocates nothing and returns no value to the host. Metadata
//    comes in typed layouts planned on the host.
//  - Batch invariance: the bits of an output row depend on that row's inputs and the weights only,
//    never on the other rows, on their number, or on the number of threads.
//  - Zero rows are allowed and do nothing. Shapes that don't fit are programmer errors
//    (CHECK_KERNEL); a failing device throws DeviceError.
//  - Outputs may not overlap inputs unless the op says so.
//  - NaN and infinity in a row stay in that row.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/ops/layouts.h"
#include "kernels/ops/ragged_batch.h"
#include "kernels/tensor/buffer.h"
#include "kernels/tensor/device.h"
#include "kernels/tensor/dtype.h"
#include "kernels/tensor/stream.h"
#include "kernels/tensor/tensor_view.h"

namespace tandem::ops {

// What a backend can do, checked once at start.
struct Capabilities {
  tensor::Device device;
  uint32_t weight_dtypes = 0;  // bit 1 << DType
  uint32_t kv_dtypes = 0;      // bit 1 << DType
  int64_t max_head_dim = 0;
  int64_t max_query_heads_per_kv_head = 0;
  const char* tile_format = "";  // of its KV tiles, see PagedKvLayout
  int32_t threads = 1;

  bool can_store_weight(tensor::DType t) const {
    return (weight_dtypes >> static_cast<int>(t) & 1) != 0;
  }
  bool can_store_kv(tensor::DType t) const { return (kv_dtypes >> static_cast<int>(t) & 1) != 0; }
};

// A stored matrix as the model file has it: [rows, cols], rows contiguous along cols.
struct RawMatrix {
  tensor::DType dtype = tensor::DType::kF32;
  std::span<const std::byte> bytes;  // exactly rows * cols elements; any alignment
  int64_t rows = 0;                  // N, the output width
  int64_t cols = 0;                  // K, the input width

  MatrixSlice whole() const { return {0, rows, 0, cols}; }
};

// A weight matrix in the backend's own layout. Immutable once packed; may be shared by threads.
// Only the backend that packed it may use it; it must not outlive that backend.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  virtual tensor::DType dtype() const = 0;
  virtual int64_t rows() const = 0;  // N of the slice
  virtual int64_t cols() const = 0;  // K of the slice
  virtual int64_t size_bytes() const = 0;
};

// Token ids of the rows of a step, and the range of ids a (vocabulary-parallel) table holds.
struct TokenRows {
  const uint32_t* ids = nullptr;  // [num_tokens], device-visible
  int64_t num_tokens = 0;
  uint32_t first_id = 0;  // id of the table's row 0
};

struct AttentionInput {
  tensor::ConstTensorView q;  // [num_tokens, num_q_heads * head_dim], rope applied
  RaggedBatch batch;
  KvLayerView kv;
  float scale = 0;  // of q·k, usually 1 / sqrt(head_dim)
};

// Used by one thread at a time (the compute thread), which owns it.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual Capabilities capabilities() const = 0;
  // "reference", "avx2", …: the value of the `ops` knob.
  virtual const char* name() const = 0;
  // Backend, instruction set and revision of the kernels: a part of the numerics class. Two
  // backends with equal strings give equal bits.
  virtual std::string numerics_revision() const = 0;

  // ---- at start; may allocate, may throw DeviceError ----

  // Zeroed, 64-byte aligned, already backed by memory (large ones by huge pages where possible).
  virtual tensor::Buffer allocate(int64_t size_bytes) = 0;
  virtual std::unique_ptr<tensor::Stream> make_stream() = 0;
  // Takes `slice` of `raw`; `raw` may go away afterwards.
  // Requires: a dtype of capabilities().weight_dtypes, slice within raw and block-aligned.
  virtual std::unique_ptr<PackedMatrix> pack(const RawMatrix& raw, const MatrixSlice& slice) = 0;

  // ---- in the step ----

  // Host memory to device memory and back, ordered by the stream. The host memory must stay
  // untouched until the stream has passed the copy.
  virtual void upload(tensor::Stream& stream, const void* host, void* device,
                      int64_t size_bytes) = 0;
  virtual void download(tensor::Stream& stream, const void* device, void* host,
                        int64_t size_bytes) = 0;

  // out[t] = table[ids[t] - first_id]; zeros for ids outside the table.
  // table: [V, hidden]; out: f32 [num_tokens, hidden].
  virtual void embed(tensor::Stream& stream, const TokenRows& tokens, const PackedMatrix& table,
                     tensor::TensorView out) = 0;

  // out[t] = x[t] / sqrt(mean(x[t]²) + eps) * weight. out may be x.
  // x, out: f32 [num_rows, n]; weight: f32 [n], device-visible.
  virtual void rms_norm(tensor::Stream& stream, tensor::ConstTensorView x, const float* weight,
                        float eps, tensor::TensorView out) = 0;

  // out = x · wᵀ, weights dequantised exactly, one sum in K order per element.
  // x: f32 [num_rows, K]; w: [N, K]; out: f32 [num_rows, N].
  virtual void matmul(tensor::Stream& stream, tensor::ConstTensorView x, const PackedMatrix& w,
                      tensor::TensorView out) = 0;

  // The same, but each leaf of K gives its own sum.
  // partials: f32 [num_leaves * num_rows, N], leaf-major (row leaf * num_rows + t).
  virtual void matmul_leaves(tensor::Stream& stream, tensor::ConstTensorView x,
                             const PackedMatrix& w, const LeafLayout& leaves,
                             tensor::TensorView partials) = 0;

  // matmul_leaves followed by tree_sum, bit for bit, without the partials in memory.
  // out: f32 [num_rows, N].
  virtual void matmul_tree(tensor::Stream& stream, tensor::ConstTensorView x,
                           const PackedMatrix& w, const LeafLayout& leaves,
                           tensor::TensorView out) = 0;

  // Adds partials in the canonical tree (see tree_split); also right for any canonical sub-tree.
  // partials: f32 [num_leaves * num_rows, N], leaf-major; out: f32 [num_rows, N], may be the first
  // num_rows rows of partials.
  virtual void tree_sum(tensor::Stream& stream, tensor::ConstTensorView partials, int num_leaves,
                        tensor::TensorView out) = 0;

  // Rotates every head of x in place by its row's position.
  // x: f32 [num_tokens, num_heads * head_dim]. Requires: positions < table.num_positions.
  virtual void rope(tensor::Stream& stream, tensor::TensorView x, int64_t head_dim,
                    const RaggedBatch& batch, const RopeTable& table) = 0;

  // Stores the rows' K and V at their positions, rounded to the pool's dtype (nearest even).
  // k, v: f32 [num_tokens, num_kv_heads * head_dim]. Slots beyond the context keep what they held;
  // no op reads them.
  virtual void append_kv(tensor::Stream& stream, tensor::ConstTensorView k,
                         tensor::ConstTensorView v, const RaggedBatch& batch,
                         const KvLayerView& kv) = 0;

  // out[t, h] = softmax(scale * q[t, h] · K[0..pos]) · V[0..pos], K and V read as stored, in tiles
  // and splits of fixed width at absolute positions. Query head h uses KV head
  // h / (num_q_heads / num_kv_heads). out: f32 [num_tokens, num_q_heads * head_dim].
  // Requires: append_kv of the same rows and layer came first.
  virtual void attention(tensor::Stream& stream, const AttentionInput& input,
                         tensor::TensorView out) = 0;

  // out = silu(gate) * up, silu(x) = x / (1 + exp(-x)). All f32 [num_rows, n]; out may be gate or
  // up.
  virtual void silu_mul(tensor::Stream& stream, tensor::ConstTensorView gate,
                        tensor::ConstTensorView up, tensor::TensorView out) = 0;

  // out = x + y. All f32 [num_rows, n]; out may be x or y.
  virtual void add(tensor::Stream& stream, tensor::ConstTensorView x, tensor::ConstTensorView y,
                   tensor::TensorView out) = 0;

  // out[i] = x[rows[i]]. rows: [out.rows], device-visible; x, out: f32 of equal width.
  virtual void gather_rows(tensor::Stream& stream, tensor::ConstTensorView x,
                           const uint32_t* rows, tensor::TensorView out) = 0;
};

}  // namespace tandem::ops
