#pragma once
// Executor: the seam between the loop thread, which decides, and whatever computes: the compute
// thread of a worker, or the toy of the simulation.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/runtime/clock.h"
#include "comm/runtime/ids.h"
#include "comm/wire/control.pb.h"

namespace tandem::engine {

// One sequence's share of a plan: compute positions [begin, begin + tokens.size()).
struct StepItem {
  uint64_t key = 0;                     // the engine's key of the sequence
  std::vector<uint32_t> tokens;         // inputs at those positions
  uint32_t begin = 0;
  std::vector<BlockId> block_table;     // of the whole sequence
  bool sample = false;                  // the token that follows the last position
  wire::Sampling sampling;
};

// What every rank of an instance executes. hash covers all items: ranks compare it.
struct StepPlan {
  uint64_t sequence_number = 0;         // 1, 2, ... in one incarnation
  uint64_t hash = 0;
  uint32_t num_tokens = 0;
  std::vector<StepItem> items;
};

uint64_t plan_hash(const StepPlan& plan);

struct StepSample {
  bool finite = true;                   // false: NaN or Inf on the way; nothing was sampled
  bool sampled = false;
  uint32_t token = 0;
  uint64_t logits_digest = 0;           // 0 unless testing.logits_digest
  wire::TokenLogprobs logprobs;         // when asked for
};

struct StepResult {
  uint64_t sequence_number = 0;
  Duration took{};
  std::vector<StepSample> samples;      // one per item
};

class Executor {
 public:
  using Done = std::function<void(StepResult)>;

  virtual ~Executor() = default;
  // Runs one plan; one at a time. `done` is called on the loop thread, never inside submit.
  virtual void submit(StepPlan plan, Done done) = 0;
  // The memory of one block: written only by a running plan or by a landing.
  virtual std::span<std::byte> block_bytes(BlockId block) = 0;
};

}  // namespace tandem::engine
