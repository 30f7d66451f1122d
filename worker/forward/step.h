#pragma once
// What the engine asks of the model in one step, and what it gets back. Plain values.

#include <cstdint>
#include <span>
#include <vector>

#include "worker/sampling/sampler.h"

namespace tandem::forward {

// For tests and tools; costs a copy of the rows.
enum class ReturnLogits { kNone, kLast, kAll };

// One sequence's share of a step: consecutive tokens whose K and V are computed and stored.
// Views are only read during Model::run.
struct StepEntry {
  std::span<const int32_t> tokens;  // at least one, each in [0, vocab)
  int32_t start_position = 0;       // absolute position of tokens[0]
  // Physical blocks of the sequence from position 0 on, covering start_position + tokens.size().
  // Positions before start_position have been computed (or received) into them.
  std::span<const uint32_t> block_table{};
  bool sample = false;  // sample the token that follows the last one
  sampling::SamplingParams params{};
  uint32_t choice = 0;
  int32_t num_logprobs = -1;  // as SampleRequest
  bool digest = false;
  ReturnLogits return_logits = ReturnLogits::kNone;

  bool wants_logits() const { return sample || return_logits != ReturnLogits::kNone; }
};

using StepBatch = std::vector<StepEntry>;

struct EntryOutput {
  // False: a hidden value of these tokens is not a finite number. Their blocks must not become
  // visible to others, the request fails, nothing is sampled.
  bool finite = true;
  // Set if the entry samples and is finite; sample.finite tells the same of its logits.
  sampling::SampleResult sample{};
  std::vector<float> logits{};  // [1 or num tokens, vocab], if asked for
};

// One per entry, in order.
struct StepOutput {
  std::vector<EntryOutput> entries;
};

}  // namespace tandem::forward
