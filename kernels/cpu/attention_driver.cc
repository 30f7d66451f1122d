// The ops on paged KV: append and attention.
#include <algorithm>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/tensor/check.h"

namespace tandem::cpu {

using ops::KvLayerView;
using ops::PagedKvLayout;
using ops::RaggedBatch;
using tensor::ConstTensorView;
using tensor::Stream;
using tensor::TensorView;

namespace {

// Rows of one attention task: enough queries to pay for preparing a KV tile, few enough that their
// running state stays in the cache and a long chunk gives work to all threads.
constexpr int64_t kTaskQueries = 96;
constexpr int64_t kTaskRows = 32;

void check_kv(const KvLayerView& kv, const RaggedBatch& batch) {
  const PagedKvLayout& layout = kv.layout;
  CHECK_KERNEL(layout.dtype == tensor::DType::kF32 || layout.dtype == tensor::DType::kBF16);
  CHECK_KERNEL(layout.block_size == 16 || layout.block_size == 32 || layout.block_size == 64);
  CHECK_KERNEL(layout.num_kv_heads > 0);
  CHECK_KERNEL(layout.head_dim > 0 && layout.head_dim <= kMaxHeadDim);
  CHECK_KERNEL(kv.layer >= 0 && kv.layer < layout.num_layers);
  for (uint32_t s = 0; s < batch.num_sequences; ++s) {
    const uint32_t rows = batch.row_begin[s + 1] - batch.row_begin[s];
    const int64_t entries = batch.table_begin[s + 1] - batch.table_begin[s];
    CHECK_KERNEL(entries * layout.block_size >= int64_t{batch.first_position[s]} + rows);
    for (uint32_t i = batch.table_begin[s]; i < batch.table_begin[s + 1]; ++i) {
      CHECK_KERNEL(batch.block_table[i] < kv.num_blocks);
    }
  }
}

// Stores one row's heads into slot `slot` of its block.
void store_heads(const float* row, const KvLayerView& kv, int64_t block, int64_t slot,
                 int key_or_value) {
  const PagedKvLayout& layout = kv.layout;
  const int64_t slot_bytes = layout.head_dim * layout.element_bytes();
  for (int64_t head = 0; head < layout.num_kv_heads; ++head) {
    char* tile = static_cast<char*>(kv.tile(block, key_or_value, head));
    store_kv_row(row + head * layout.head_dim, layout.head_dim,
                 layout.dtype == tensor::DType::kBF16, tile + slot * slot_bytes);
  }
}

}  // namespace

void CpuBackend::append_kv(Stream&, ConstTensorView k, ConstTensorView v,
                           const RaggedBatch& batch, const KvLayerView& kv) {
  const PagedKvLayout& layout = kv.layout;
  check_kv(kv, batch);
  CHECK_KERNEL(k.rows == batch.num_tokens && v.rows == batch.num_tokens);
  CHECK_KERNEL(k.cols == layout.num_kv_heads * layout.head_dim && v.cols == k.cols);
  parallel_for(k.rows, k.cols * 2, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t position = batch.positions[r];
      const uint32_t* table = batch.block_table + batch.table_begin[batch.sequence_of_row[r]];
      const int64_t block = table[position / layout.block_size];
      const int64_t slot = position % layout.block_size;
      store_heads(k.f32_row(r), kv, block, slot, PagedKvLayout::kKey);
      store_heads(v.f32_row(r), kv, block, slot, PagedKvLayout::kValue);
    }
  });
}

void CpuBackend::attention(Stream&, const ops::AttentionInput& input, TensorView out) {
  const PagedKvLayout& layout = input.kv.layout;
  const RaggedBatch& batch = input.batch;
  const int64_t head_dim = layout.head_dim;
  const int64_t group = input.q.cols / (layout.num_kv_heads * head_dim);
  check_kv(input.kv, batch);
  CHECK_KERNEL(input.q.rows == batch.num_tokens && out.rows == batch.num_tokens);
  CHECK_KERNEL(input.q.cols == group * layout.num_kv_heads * head_dim);
  CHECK_KERNEL(out.cols == input.q.cols && group >= 1 && group <= kMaxGroup);
  const int64_t task_rows = std::clamp<int64_t>(kTaskQueries / group, 1, kTaskRows);

  AttentionTask shared{};
  shared.q_stride = input.q.stride;
  shared.out_stride = out.stride;
  shared.num_heads = static_cast<int32_t>(group);
  shared.head_dim = static_cast<int32_t>(head_dim);
  shared.block_size = static_cast<int32_t>(layout.block_size);
  shared.kv_is_bf16 = layout.dtype == tensor::DType::kBF16;
  shared.block_bytes = layout.block_bytes();
  shared.scale = input.scale;

  // Tasks are (sequence, run of rows, KV head), dealt to the members in turn.
  const auto walk = [&](int64_t members, int64_t member) {
    AttentionTask task = shared;
    task.scratch = static_cast<float*>(attention_scratch_[static_cast<size_t>(member)].data());
    int64_t index = 0;
    for (uint32_t s = 0; s < batch.num_sequences; ++s) {
      task.blocks = batch.block_table + batch.table_begin[s];
      for (int64_t row = batch.row_begin[s]; row < batch.row_begin[s + 1]; row += task_rows) {
        task.num_rows =
            static_cast<int32_t>(std::min<int64_t>(task_rows, batch.row_begin[s + 1] - row));
        task.first_position = batch.positions[row];
        for (int64_t head = 0; head < layout.num_kv_heads; ++head) {
          if (index++ % members != member) continue;
          task.q = input.q.f32_row(row) + head * group * head_dim;
          task.out = out.f32_row(row) + head * group * head_dim;
          task.keys = static_cast<const uint8_t*>(input.kv.tile(0, PagedKvLayout::kKey, head));
          task.values =
              static_cast<const uint8_t*>(input.kv.tile(0, PagedKvLayout::kValue, head));
          table_.attention(task);
        }
      }
    }
  };
  const int members = pool_->size();
  const int64_t work = int64_t{batch.num_tokens} * batch.max_context * input.q.cols * 2;
  if (members == 1 || work < kMinParallelWork) {
    const DenormalGuard guard;
    return walk(1, 0);
  }
  pool_->run([&](int member) { walk(members, member); });
}

}  // namespace tandem::cpu
