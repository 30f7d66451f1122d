#pragma once
// Runs append_kv + attention over whole sequences, in any cut into steps.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/parity/kernels/op_cases.h"

namespace tandem::op_cases {

struct AttentionCase {
  int64_t num_kv_heads = 1;
  int64_t group = 1;  // query heads per KV head
  int64_t head_dim = 64;
  int64_t block_size = 32;
  tensor::DType dtype = tensor::DType::kF32;

  int64_t q_cols() const { return num_kv_heads * group * head_dim; }
  int64_t kv_cols() const { return num_kv_heads * head_dim; }
  std::string name() const;
};

// MHA, GQA and MQA; head sizes that are and aren't whole vectors; both KV dtypes.
std::vector<AttentionCase> attention_cases();

// Inputs of one sequence: [length, q_cols] and [length, kv_cols].
struct SequenceInput {
  int64_t length = 0;
  std::vector<float> q, k, v;
};

SequenceInput random_sequence(const AttentionCase& shape, int64_t length, uint32_t seed);

// A pool for several sequences, all slots and one spare block filled with `poison` at first. Blocks
// of different sequences interleave. The tables passed to ops have one entry more than needed,
// pointing at the spare block.
class AttentionRig {
 public:
  AttentionRig(const std::string& op_set, int threads, const AttentionCase& shape,
               std::vector<SequenceInput> sequences,
               float poison = std::numeric_limits<float>::quiet_NaN());

  // One step: the next rows[s] tokens of each sequence (0 = not in the batch).
  void step(const std::vector<int64_t>& rows);

  // The same, but only K and V are stored; their rows of out() stay zero.
  void append(const std::vector<int64_t>& rows);

  // The attention of the last step once more, for timing.
  void repeat_attention() { attend(); }

  // Steps of at most `chunk` tokens of each sequence until all are done.
  void run(int64_t chunk);

  // [length, q_cols] of sequence s.
  const std::vector<float>& out(size_t s) const { return out_[s]; }

  ops::KvLayerView kv_view() const;

 private:
  void gather_and_store(const std::vector<int64_t>& rows);
  void attend();

  AttentionCase shape_;
  Rig rig_;
  std::vector<SequenceInput> sequences_;
  std::vector<std::vector<uint32_t>> tables_;
  std::vector<int64_t> done_;
  std::vector<std::vector<float>> out_;
  ops::RaggedBatchPlan plan_;
  std::vector<float> q_, k_, v_, step_out_;  // of the last step
  int64_t num_blocks_ = 0;
  tensor::Buffer pool_;
};

}  // namespace tandem::op_cases
