#include "tests/parity/kernels/attention_rig.h"

#include <algorithm>
#include <cmath>

#include "kernels/tensor/quant.h"

namespace tandem::op_cases {

using tensor::ConstTensorView;
using tensor::DType;
using tensor::TensorView;

namespace {

constexpr int64_t kNumLayers = 2;  // the second one is used: offsets of layers must be right
constexpr int64_t kLayer = 1;

ops::PagedKvLayout layout_of(const AttentionCase& shape) {
  return {.num_layers = kNumLayers,
          .num_kv_heads = shape.num_kv_heads,
          .head_dim = shape.head_dim,
          .block_size = shape.block_size,
          .dtype = shape.dtype};
}

ops::RaggedBatchPlan::Limits limits_of(const std::vector<SequenceInput>& sequences) {
  ops::RaggedBatchPlan::Limits limits;
  for (const SequenceInput& s : sequences) {
    limits.max_tokens += static_cast<uint32_t>(s.length);
    limits.max_table_entries += static_cast<uint32_t>(s.length / 16 + 2);
  }
  limits.max_sequences = static_cast<uint32_t>(sequences.size());
  return limits;
}

}  // namespace

std::string AttentionCase::name() const {
  return "kv_heads=" + std::to_string(num_kv_heads) + " group=" + std::to_string(group) +
         " head_dim=" + std::to_string(head_dim) + " block=" + std::to_string(block_size) + " " +
         tensor::dtype_name(dtype);
}

std::vector<AttentionCase> attention_cases() {
  std::vector<AttentionCase> cases;
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    cases.push_back({3, 3, 64, 32, dtype});    // SmolLM2's heads
    cases.push_back({2, 1, 20, 16, dtype});    // MHA, a head that is not whole vectors
    cases.push_back({1, 8, 80, 64, dtype});    // MQA
    cases.push_back({1, 2, 128, 16, dtype});
    cases.push_back({1, 1, 4, 32, dtype});
  }
  return cases;
}

SequenceInput random_sequence(const AttentionCase& shape, int64_t length, uint32_t seed) {
  return {length, random_values(seed, length * shape.q_cols()),
          random_values(seed + 1000, length * shape.kv_cols()),
          random_values(seed + 2000, length * shape.kv_cols())};
}

AttentionRig::AttentionRig(const std::string& op_set, int threads, const AttentionCase& shape,
                           std::vector<SequenceInput> sequences, float poison)
    : shape_(shape),
      rig_(make_rig(op_set, threads)),
      sequences_(std::move(sequences)),
      plan_(limits_of(sequences_)) {
  uint32_t next = 1;  // block 0 is the spare one
  tables_.resize(sequences_.size());
  for (bool grew = true; grew;) {
    grew = false;
    for (size_t s = 0; s < sequences_.size(); ++s) {
      const auto has = static_cast<int64_t>(tables_[s].size());
      if (has * shape.block_size >= sequences_[s].length) continue;
      tables_[s].push_back(next++);
      grew = true;
    }
  }
  for (size_t s = 0; s < sequences_.size(); ++s) {
    tables_[s].push_back(0);
    done_.push_back(0);
    out_.emplace_back(static_cast<size_t>(sequences_[s].length * shape.q_cols()), 0.0f);
  }
  num_blocks_ = next;
  pool_ = rig_.backend->allocate(num_blocks_ * layout_of(shape).block_bytes());
  if (shape.dtype == DType::kF32) {
    std::ranges::fill(pool_.as<float>(), poison);
  } else {
    std::ranges::fill(pool_.as<uint16_t>(), tensor::bf16_from_f32(poison));
  }
}

ops::KvLayerView AttentionRig::kv_view() const {
  return {layout_of(shape_), pool_.data(), num_blocks_, kLayer};
}

void AttentionRig::gather_and_store(const std::vector<int64_t>& rows) {
  const int64_t q_cols = shape_.q_cols();
  const int64_t kv_cols = shape_.kv_cols();
  q_.clear();
  k_.clear();
  v_.clear();
  plan_.clear();
  const auto append = [](std::vector<float>& to, const std::vector<float>& from, int64_t first,
                         int64_t count) {
    to.insert(to.end(), from.begin() + first, from.begin() + first + count);
  };
  for (size_t s = 0; s < rows.size(); ++s) {
    if (rows[s] == 0) continue;
    plan_.add_sequence(static_cast<uint32_t>(done_[s]), static_cast<uint32_t>(rows[s]),
                       tables_[s]);
    append(q_, sequences_[s].q, done_[s] * q_cols, rows[s] * q_cols);
    append(k_, sequences_[s].k, done_[s] * kv_cols, rows[s] * kv_cols);
    append(v_, sequences_[s].v, done_[s] * kv_cols, rows[s] * kv_cols);
    done_[s] += rows[s];
  }
  const int64_t total = plan_.view().num_tokens;
  step_out_.assign(q_.size(), 0.0f);
  rig_.backend->append_kv(*rig_.stream, ConstTensorView::f32(k_.data(), total, kv_cols),
                          ConstTensorView::f32(v_.data(), total, kv_cols), plan_.view(),
                          kv_view());
}

void AttentionRig::append(const std::vector<int64_t>& rows) { gather_and_store(rows); }

void AttentionRig::attend() {
  const ops::RaggedBatch batch = plan_.view();
  const int64_t q_cols = shape_.q_cols();
  const ops::AttentionInput input{.q = ConstTensorView::f32(q_.data(), batch.num_tokens, q_cols),
                                  .batch = batch,
                                  .kv = kv_view(),
                                  .scale = 1 / std::sqrt(static_cast<float>(shape_.head_dim))};
  rig_.backend->attention(*rig_.stream, input,
                          TensorView::f32(step_out_.data(), batch.num_tokens, q_cols));
}

void AttentionRig::step(const std::vector<int64_t>& rows) {
  gather_and_store(rows);
  attend();
  const int64_t q_cols = shape_.q_cols();
  int64_t row = 0;
  for (size_t s = 0; s < rows.size(); ++s) {
    std::copy_n(step_out_.begin() + row * q_cols, rows[s] * q_cols,
                out_[s].begin() + (done_[s] - rows[s]) * q_cols);
    row += rows[s];
  }
}

void AttentionRig::run(int64_t chunk) {
  for (;;) {
    std::vector<int64_t> rows;
    int64_t total = 0;
    for (size_t s = 0; s < sequences_.size(); ++s) {
      rows.push_back(std::min(chunk, sequences_[s].length - done_[s]));
      total += rows.back();
    }
    if (total == 0) return;
    step(rows);
  }
}

}  // namespace tandem::op_cases
