#pragma once
// The rows of one step: a batch of sequences that each contribute one or more new tokens at
// consecutive positions. Planned once per step on the host, read by rope, append_kv and attention.

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::ops {

// What ops see. Counts are host values; pointers are device-visible arrays (on the CPU plain
// memory). Row r of sequence s stands at absolute position first_position[s] + r - row_begin[s];
// its context is every position up to and including its own.
struct RaggedBatch {
  uint32_t num_tokens = 0;  // rows of the step
  uint32_t num_sequences = 0;
  uint32_t max_rows = 0;     // most rows of one sequence
  uint32_t max_context = 0;  // longest context of one sequence, in tokens

  const uint32_t* row_begin = nullptr;        // [num_sequences + 1]; the last is num_tokens
  const uint32_t* first_position = nullptr;   // [num_sequences]
  const uint32_t* table_begin = nullptr;      // [num_sequences + 1], into block_table
  const uint32_t* block_table = nullptr;      // flat; entry i of s holds positions
                                              // [i * block_size, (i + 1) * block_size)
  const uint32_t* positions = nullptr;        // [num_tokens], absolute
  const uint32_t* sequence_of_row = nullptr;  // [num_tokens]
};

// Builds RaggedBatch values in one arena of fixed capacity, so that it can be uploaded with one
// copy and every array keeps its address from step to step (device graphs). Owned by the engine's
// compute thread. Never allocates after construction.
class RaggedBatchPlan {
 public:
  struct Limits {
    uint32_t max_tokens = 0;
    uint32_t max_sequences = 0;
    uint32_t max_table_entries = 0;  // block table entries of all sequences of a step
  };

  explicit RaggedBatchPlan(const Limits& limits);

  // Starts an empty step.
  void clear();

  // Appends a sequence that computes `num_rows` tokens from `first_position` on.
  // blocks: its physical block ids, at least ceil((first_position + num_rows) / block_size) of
  // them. Requires: num_rows >= 1, room within the limits.
  void add_sequence(uint32_t first_position, uint32_t num_rows, std::span<const uint32_t> blocks);

  // The step as planned so far; the arrays lie in this object, valid until it changes.
  RaggedBatch view() const { return view_at(arena_.data()); }
  // The same with the arrays at `base`, a device copy of arena().
  RaggedBatch view_at(const void* base) const;
  std::span<const uint32_t> arena() const { return arena_; }

 private:
  Limits limits_;
  std::vector<uint32_t> arena_;
  // Word offsets of the sections in the arena.
  uint32_t row_begin_, first_position_, table_begin_, positions_, sequence_of_row_, block_table_;
  uint32_t num_tokens_ = 0;
  uint32_t num_sequences_ = 0;
  uint32_t num_entries_ = 0;
  uint32_t max_rows_ = 0;
  uint32_t max_context_ = 0;
};

}  // namespace tandem::ops
