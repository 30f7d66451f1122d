#include "kernels/ops/ragged_batch.h"

#include <algorithm>

#include "kernels/tensor/check.h"

namespace tandem::ops {

RaggedBatchPlan::RaggedBatchPlan(const Limits& limits) : limits_(limits) {
  uint32_t end = 0;
  const auto section = [&end](uint32_t words) {
    const uint32_t begin = end;
    end += (words + 15) / 16 * 16;  // 64-byte aligned sections
    return begin;
  };
  row_begin_ = section(limits.max_sequences + 1);
  first_position_ = section(limits.max_sequences);
  table_begin_ = section(limits.max_sequences + 1);
  positions_ = section(limits.max_tokens);
  sequence_of_row_ = section(limits.max_tokens);
  block_table_ = section(limits.max_table_entries);
  arena_.assign(end, 0);
}

void RaggedBatchPlan::clear() {
  num_tokens_ = num_sequences_ = num_entries_ = max_rows_ = max_context_ = 0;
  arena_[row_begin_] = 0;
  arena_[table_begin_] = 0;
}

void RaggedBatchPlan::add_sequence(uint32_t first_position, uint32_t num_rows,
                                   std::span<const uint32_t> blocks) {
  CHECK_KERNEL(num_rows >= 1);
  CHECK_KERNEL(num_sequences_ < limits_.max_sequences);
  CHECK_KERNEL(num_rows <= limits_.max_tokens - num_tokens_);
  CHECK_KERNEL(blocks.size() <= limits_.max_table_entries - num_entries_);
  uint32_t* words = arena_.data();
  for (uint32_t i = 0; i < num_rows; ++i) {
    words[positions_ + num_tokens_ + i] = first_position + i;
    words[sequence_of_row_ + num_tokens_ + i] = num_sequences_;
  }
  std::copy(blocks.begin(), blocks.end(), words + block_table_ + num_entries_);
  words[first_position_ + num_sequences_] = first_position;
  num_tokens_ += num_rows;
  num_entries_ += static_cast<uint32_t>(blocks.size());
  ++num_sequences_;
  words[row_begin_ + num_sequences_] = num_tokens_;
  words[table_begin_ + num_sequences_] = num_entries_;
  max_rows_ = std::max(max_rows_, num_rows);
  max_context_ = std::max(max_context_, first_position + num_rows);
}

RaggedBatch RaggedBatchPlan::view_at(const void* base) const {
  const uint32_t* words = static_cast<const uint32_t*>(base);
  return {.num_tokens = num_tokens_,
          .num_sequences = num_sequences_,
          .max_rows = max_rows_,
          .max_context = max_context_,
          .row_begin = words + row_begin_,
          .first_position = words + first_position_,
          .table_begin = words + table_begin_,
          .block_table = words + block_table_,
          .positions = words + positions_,
          .sequence_of_row = words + sequence_of_row_};
}

}  // namespace tandem::ops
