#pragma once
// The metadata of one step: planned on the host once, uploaded as two copies, then read by every
// layer. Arrays keep their device address from step to step. Owned by Model, on the compute
// thread; allocates only when made.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops/backend.h"
#include "worker/forward/step.h"

namespace tandem::forward {

struct StepLimits {
  int64_t max_tokens = 0;      // rows of a step
  int64_t max_sequences = 0;   // entries of a step
  int64_t max_logit_rows = 0;  // rows whose logits are computed
  int64_t max_context = 0;     // positions of a sequence
  int64_t block_size = 0;
  int64_t num_blocks = 0;
  int64_t vocab = 0;
};

class StepPlan {
 public:
  StepPlan(const StepLimits& limits, ops::Backend& backend);

  // Checks the batch against the limits (a violation is a programmer error) and lays it out.
  void plan(std::span<const StepEntry> batch);
  // Copies the metadata to the device. The plan must stay untouched until the stream has passed.
  void upload(tensor::Stream& stream);

  // Device views of the planned step, valid until the next plan().
  ops::TokenRows tokens(uint32_t first_id) const;
  ops::RaggedBatch batch() const;
  const uint32_t* logit_rows() const;  // [num_logit_rows], rows of the step
  int64_t num_tokens() const { return static_cast<int64_t>(num_tokens_); }
  int64_t num_logit_rows() const { return static_cast<int64_t>(num_logit_rows_); }

 private:
  void check(const StepEntry& entry) const;

  StepLimits limits_;
  ops::Backend& backend_;
  ops::RaggedBatchPlan ragged_;
  std::vector<uint32_t> rows_;  // host copy: [max_tokens] ids, then [max_logit_rows] rows
  tensor::Buffer device_ragged_;
  tensor::Buffer device_rows_;
  size_t num_tokens_ = 0;
  size_t num_logit_rows_ = 0;
};

}  // namespace tandem::forward
