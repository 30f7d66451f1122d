#include "kernels/cpu/cpu_backend.h"

#include <cstring>

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/tensor/check.h"

namespace tandem::cpu {

using ops::RaggedBatch;
using tensor::ConstTensorView;
using tensor::Stream;
using tensor::TensorView;

namespace {

// Ops finish before they return, so the CPU's stream has nothing to wait for.
class CpuStream final : public Stream {
 public:
  void synchronize() override {}
};

// Rough cost of one element of an op with an exponential or a root, in multiply-adds.
constexpr int64_t kCostlyElement = 8;

void check_same_shape(ConstTensorView x, ConstTensorView y) {
  CHECK_KERNEL(x.rows == y.rows && x.cols == y.cols);
}

}  // namespace

CpuBackend::CpuBackend(const KernelTable& table, std::string revision, int threads)
    : table_(table), revision_(std::move(revision)), pool_(std::make_unique<ThreadPool>(threads)) {
  const int64_t floats = table_.attention_scratch_floats();
  for (int member = 0; member < threads; ++member) {
    matmul_scratch_.emplace_back();
    attention_scratch_.push_back(allocate_host(floats * static_cast<int64_t>(sizeof(float))));
  }
}

CpuBackend::~CpuBackend() = default;

ops::Capabilities CpuBackend::capabilities() const {
  const auto bit = [](tensor::DType t) { return 1u << static_cast<int>(t); };
  return {.device = {},
          .weight_dtypes = (1u << tensor::kNumDTypes) - 1,
          .kv_dtypes = bit(tensor::DType::kF32) | bit(tensor::DType::kBF16),
          .max_head_dim = kMaxHeadDim,
          .max_query_heads_per_kv_head = kMaxGroup,
          .tile_format = ops::PagedKvLayout::kRowMajorTile,
          .threads = pool_->size()};
}

std::string CpuBackend::numerics_revision() const {
  return std::string("cpu/") + table_.name + "/" + revision_;
}

tensor::Buffer CpuBackend::allocate(int64_t size_bytes) { return allocate_host(size_bytes); }
std::unique_ptr<Stream> CpuBackend::make_stream() { return std::make_unique<CpuStream>(); }

void CpuBackend::upload(Stream&, const void* host, void* device, int64_t size_bytes) {
  if (size_bytes > 0 && host != device) std::memcpy(device, host, static_cast<size_t>(size_bytes));
}

void CpuBackend::download(Stream& stream, const void* device, void* host, int64_t size_bytes) {
  upload(stream, device, host, size_bytes);
}

void CpuBackend::rms_norm(Stream&, ConstTensorView x, const float* weight, float eps,
                          TensorView out) {
  check_same_shape(x, out);
  parallel_for(x.rows, x.cols * 2, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      table_.rms_norm(x.f32_row(r), weight, x.cols, eps, out.f32_row(r));
    }
  });
}

void CpuBackend::silu_mul(Stream&, ConstTensorView gate, ConstTensorView up, TensorView out) {
  check_same_shape(gate, up);
  check_same_shape(gate, out);
  parallel_for(gate.rows, gate.cols * kCostlyElement, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      table_.silu_mul(gate.f32_row(r), up.f32_row(r), gate.cols, out.f32_row(r));
    }
  });
}

void CpuBackend::add(Stream&, ConstTensorView x, ConstTensorView y, TensorView out) {
  check_same_shape(x, y);
  check_same_shape(x, out);
  parallel_for(x.rows, x.cols, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      add_row(x.f32_row(r), y.f32_row(r), x.cols, out.f32_row(r));
    }
  });
}

void CpuBackend::gather_rows(Stream&, ConstTensorView x, const uint32_t* rows, TensorView out) {
  CHECK_KERNEL(x.cols == out.cols);
  const size_t size_bytes = static_cast<size_t>(x.cols) * sizeof(float);
  for (int64_t i = 0; i < out.rows; ++i) {
    CHECK_KERNEL(rows[i] < x.rows);
    std::memcpy(out.f32_row(i), x.f32_row(rows[i]), size_bytes);
  }
}

void CpuBackend::rope(Stream&, TensorView x, int64_t head_dim, const RaggedBatch& batch,
                      const ops::RopeTable& table) {
  CHECK_KERNEL(x.rows == batch.num_tokens);
  CHECK_KERNEL(head_dim > 0 && x.cols % head_dim == 0);
  CHECK_KERNEL(table.rotary_dim % 2 == 0 && table.rotary_dim <= head_dim);
  CHECK_KERNEL(batch.max_context <= table.num_positions);
  const int64_t pairs = table.rotary_dim / 2;
  parallel_for(x.rows, x.cols * 2, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t angle = batch.positions[r] * pairs;
      rope_row(x.f32_row(r), x.cols / head_dim, head_dim, table.cos + angle, table.sin + angle,
               pairs);
    }
  });
}

}  // namespace tandem::cpu
