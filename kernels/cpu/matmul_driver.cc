// Packed weights and the ops that read them: embed, matmul and its leaf forms.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/tensor/check.h"

namespace tandem::cpu {

using ops::LeafLayout;
using ops::PackedMatrix;
using tensor::ConstTensorView;
using tensor::DType;
using tensor::Stream;
using tensor::TensorView;

namespace {

class CpuPackedMatrix final : public PackedMatrix {
 public:
  CpuPackedMatrix(const KernelTable& table, DType dtype, int64_t rows, int64_t cols)
      : table_(&table),
        dtype_(dtype),
        rows_(rows),
        cols_(cols),
        buffer_(allocate_host(table.packed_bytes(dtype, rows, cols))) {}

  DType dtype() const override { return dtype_; }
  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return cols_; }
  int64_t size_bytes() const override { return buffer_.size_bytes(); }
  uint8_t* data() const { return static_cast<uint8_t*>(buffer_.data()); }
  const KernelTable* table() const { return table_; }

 private:
  const KernelTable* table_;  // whose layout this is
  DType dtype_;
  int64_t rows_;
  int64_t cols_;
  tensor::Buffer buffer_;
};

const CpuPackedMatrix& own(const PackedMatrix& w, const KernelTable& table) {
  const auto* packed = dynamic_cast<const CpuPackedMatrix*>(&w);
  CHECK_KERNEL(packed != nullptr && packed->table() == &table);
  return *packed;
}

// Appends the steps that leave the sum of leaves [first, first + count) in leaf `first`.
void append_tree(int first, int count, TreeSteps& steps) {
  if (count == 1) return;
  const int split = ops::tree_split(count);
  append_tree(first, split, steps);
  append_tree(first + split, count - split, steps);
  steps.left[steps.num_steps] = static_cast<uint8_t>(first);
  steps.right[steps.num_steps] = static_cast<uint8_t>(first + split);
  ++steps.num_steps;
}

TreeSteps make_tree(int num_leaves) {
  CHECK_KERNEL(num_leaves >= 1 && num_leaves <= ops::kMaxLeaves);
  TreeSteps steps{};
  append_tree(0, num_leaves, steps);
  return steps;
}

void check_leaves(const LeafLayout& leaves, const PackedMatrix& w) {
  CHECK_KERNEL(leaves.num_leaves >= 1 && leaves.num_leaves <= ops::kMaxLeaves);
  CHECK_KERNEL(leaves.k_begin[0] == 0 && leaves.k_begin[leaves.num_leaves] == w.cols());
  for (int i = 0; i < leaves.num_leaves; ++i) {
    CHECK_KERNEL(leaves.k_begin[i] < leaves.k_begin[i + 1]);
    CHECK_KERNEL(leaves.k_begin[i] % tensor::dtype_block_elements(w.dtype()) == 0);
  }
}

}  // namespace

void CpuBackend::grow_matmul_scratch(int64_t cols) {
  const int64_t needed =
      table_.matmul_scratch_floats(cols) * static_cast<int64_t>(sizeof(float));
  for (tensor::Buffer& scratch : matmul_scratch_) {
    if (scratch.size_bytes() < needed) scratch = allocate_host(needed);
  }
}

std::unique_ptr<PackedMatrix> CpuBackend::pack(const ops::RawMatrix& raw,
                                               const ops::MatrixSlice& slice) {
  const int64_t row_bytes = tensor::dtype_bytes(raw.dtype, raw.cols);
  CHECK_KERNEL(static_cast<int64_t>(raw.bytes.size()) == raw.rows * row_bytes);
  CHECK_KERNEL(0 <= slice.row_begin && slice.row_begin < slice.row_end);
  CHECK_KERNEL(slice.row_end <= raw.rows);
  CHECK_KERNEL(0 <= slice.col_begin && slice.col_begin < slice.col_end);
  CHECK_KERNEL(slice.col_end <= raw.cols);
  auto packed =
      std::make_unique<CpuPackedMatrix>(table_, raw.dtype, slice.rows(), slice.cols());
  const uint8_t* bytes = reinterpret_cast<const uint8_t*>(raw.bytes.data());
  const PackTask task{
      .dtype = raw.dtype,
      .raw = bytes + slice.row_begin * row_bytes + tensor::dtype_bytes(raw.dtype, slice.col_begin),
      .raw_row_bytes = row_bytes,
      .rows = slice.rows(),
      .cols = slice.cols(),
      .packed = packed->data()};
  CHECK_KERNEL(task.cols % tensor::dtype_block_elements(raw.dtype) == 0);
  const int64_t panels = (task.rows + table_.panel_rows - 1) / table_.panel_rows;
  parallel_for(panels, table_.panel_rows * task.cols, [&](int64_t begin, int64_t end, int) {
    for (int64_t panel = begin; panel < end; ++panel) table_.pack_panel(task, panel);
  });
  grow_matmul_scratch(task.cols);
  return packed;
}

void CpuBackend::embed(Stream&, const ops::TokenRows& tokens, const PackedMatrix& table,
                       TensorView out) {
  const CpuPackedMatrix& packed = own(table, table_);
  CHECK_KERNEL(out.rows == tokens.num_tokens && out.cols == packed.cols());
  const PackTask task{.dtype = packed.dtype(),
                      .raw = nullptr,
                      .raw_row_bytes = 0,
                      .rows = packed.rows(),
                      .cols = packed.cols(),
                      .packed = packed.data()};
  parallel_for(out.rows, out.cols, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t row = int64_t{tokens.ids[t]} - tokens.first_id;
      if (row >= 0 && row < task.rows) {
        table_.unpack_row(task, row, out.f32_row(t));
      } else {
        std::fill_n(out.f32_row(t), out.cols, 0.0f);
      }
    }
  });
}

void CpuBackend::run_matmul(ConstTensorView x, const PackedMatrix& w, MatmulTask task) {
  const CpuPackedMatrix& packed = own(w, table_);
  CHECK_KERNEL(x.cols == packed.cols());
  if (x.rows == 0) return;
  task.dtype = packed.dtype();
  task.packed = packed.data();
  task.rows = packed.rows();
  task.cols = packed.cols();
  task.x = x.f32_row(0);
  task.x_stride = x.stride;
  task.num_tokens = x.rows;
  const int64_t panels = (task.rows + table_.panel_rows - 1) / table_.panel_rows;
  const int64_t work = table_.panel_rows * task.cols * task.num_tokens;
  parallel_for(panels, work, [&](int64_t begin, int64_t end, int member) {
    MatmulTask mine = task;
    mine.scratch = static_cast<float*>(matmul_scratch_[static_cast<size_t>(member)].data());
    for (mine.panel = begin; mine.panel < end; ++mine.panel) table_.matmul_panel(mine);
  });
}

void CpuBackend::matmul(Stream& stream, ConstTensorView x, const PackedMatrix& w,
                        TensorView out) {
  matmul_leaves(stream, x, w, LeafLayout::single(w.cols()), out);
}

void CpuBackend::matmul_leaves(Stream&, ConstTensorView x, const PackedMatrix& w,
                               const LeafLayout& leaves, TensorView partials) {
  check_leaves(leaves, w);
  CHECK_KERNEL(partials.rows == leaves.num_leaves * x.rows && partials.cols == w.rows());
  MatmulTask task{};
  task.num_leaves = leaves.num_leaves;
  task.k_begin = leaves.k_begin;
  task.out = partials.f32_row(0);
  task.out_stride = partials.stride;
  task.leaf_stride = x.rows * partials.stride;
  run_matmul(x, w, task);
}

void CpuBackend::matmul_tree(Stream&, ConstTensorView x, const PackedMatrix& w,
                             const LeafLayout& leaves, TensorView out) {
  check_leaves(leaves, w);
  CHECK_KERNEL(out.rows == x.rows && out.cols == w.rows());
  const TreeSteps tree = make_tree(leaves.num_leaves);
  MatmulTask task{};
  task.num_leaves = leaves.num_leaves;
  task.k_begin = leaves.k_begin;
  task.tree = &tree;
  task.out = out.f32_row(0);
  task.out_stride = out.stride;
  run_matmul(x, w, task);
}

void CpuBackend::tree_sum(Stream&, ConstTensorView partials, int num_leaves, TensorView out) {
  CHECK_KERNEL(partials.rows == num_leaves * out.rows && partials.cols == out.cols);
  const TreeSteps tree = make_tree(num_leaves);
  constexpr int64_t kChunk = 64;  // columns summed at a time, on the stack
  parallel_for(out.rows, out.cols * num_leaves, [&](int64_t begin, int64_t end, int) {
    float leaf[ops::kMaxLeaves][kChunk];
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t n = 0; n < out.cols; n += kChunk) {
        const int64_t width = std::min(kChunk, out.cols - n);
        for (int l = 0; l < num_leaves; ++l) {
          std::copy_n(partials.f32_row(l * out.rows + t) + n, width, leaf[l]);
        }
        for (int s = 0; s < tree.num_steps; ++s) {
          add_row(leaf[tree.left[s]], leaf[tree.right[s]], width, leaf[tree.left[s]]);
        }
        std::copy_n(leaf[0], width, out.f32_row(t) + n);
      }
    }
  });
}

}  // namespace tandem::cpu
