#include "worker/forward/step_plan.h"

#include "comm/runtime/check.h"

namespace tandem::forward {
namespace {

int64_t size_bytes(std::span<const uint32_t> words) {
  return static_cast<int64_t>(words.size_bytes());
}

ops::RaggedBatchPlan::Limits ragged_limits(const StepLimits& limits) {
  const int64_t blocks_per_sequence =
      (limits.max_context + limits.block_size - 1) / limits.block_size;
  return {.max_tokens = static_cast<uint32_t>(limits.max_tokens),
          .max_sequences = static_cast<uint32_t>(limits.max_sequences),
          .max_table_entries = static_cast<uint32_t>(limits.max_sequences * blocks_per_sequence)};
}

}  // namespace

StepPlan::StepPlan(const StepLimits& limits, ops::Backend& backend)
    : limits_(limits),
      backend_(backend),
      ragged_(ragged_limits(limits)),
      rows_(static_cast<size_t>(limits.max_tokens + limits.max_logit_rows)),
      device_ragged_(backend.allocate(size_bytes(ragged_.arena()))),
      device_rows_(backend.allocate(size_bytes(rows_))) {}

void StepPlan::check(const StepEntry& entry) const {
  const auto num_tokens = static_cast<int64_t>(entry.tokens.size());
  CHECK(num_tokens >= 1 && entry.start_position >= 0);
  const int64_t context = entry.start_position + num_tokens;
  CHECK_LE(context, limits_.max_context);
  CHECK_GE(static_cast<int64_t>(entry.block_table.size()) * limits_.block_size, context);
  for (int32_t token : entry.tokens) CHECK(0 <= token && token < limits_.vocab);
  for (uint32_t block : entry.block_table) CHECK(block < limits_.num_blocks);
}

void StepPlan::plan(std::span<const StepEntry> batch) {
  CHECK_LE(static_cast<int64_t>(batch.size()), limits_.max_sequences);
  ragged_.clear();
  num_tokens_ = num_logit_rows_ = 0;
  uint32_t* const logit_rows = rows_.data() + limits_.max_tokens;
  for (const StepEntry& entry : batch) {
    check(entry);
    const size_t count = entry.tokens.size();
    const size_t context = static_cast<size_t>(entry.start_position) + count;
    const auto block_size = static_cast<size_t>(limits_.block_size);
    CHECK_LE(static_cast<int64_t>(num_tokens_ + count), limits_.max_tokens);
    ragged_.add_sequence(static_cast<uint32_t>(entry.start_position), static_cast<uint32_t>(count),
                         entry.block_table.first((context + block_size - 1) / block_size));
    const size_t num_logits =
        entry.return_logits == ReturnLogits::kAll ? count : (entry.wants_logits() ? 1 : 0);
    CHECK_LE(static_cast<int64_t>(num_logit_rows_ + num_logits), limits_.max_logit_rows);
    for (size_t i = 0; i < num_logits; ++i) {
      logit_rows[num_logit_rows_++] = static_cast<uint32_t>(num_tokens_ + count - num_logits + i);
    }
    for (int32_t token : entry.tokens) rows_[num_tokens_++] = static_cast<uint32_t>(token);
  }
}

void StepPlan::upload(tensor::Stream& stream) {
  backend_.upload(stream, ragged_.arena().data(), device_ragged_.data(),
                  size_bytes(ragged_.arena()));
  backend_.upload(stream, rows_.data(), device_rows_.data(), size_bytes(rows_));
}

ops::TokenRows StepPlan::tokens(uint32_t first_id) const {
  return {.ids = device_rows_.as<const uint32_t>().data(),
          .num_tokens = num_tokens(),
          .first_id = first_id};
}

ops::RaggedBatch StepPlan::batch() const { return ragged_.view_at(device_ragged_.data()); }

const uint32_t* StepPlan::logit_rows() const {
  return device_rows_.as<const uint32_t>().data() + limits_.max_tokens;
}

}  // namespace tandem::forward
