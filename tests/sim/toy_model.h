#pragma once
// The toy model: the next token is a function of all tokens so far, and the KV content of a
// position is a hash of everything before it. Whoever reads a wrong, stale or foreign block gets
// another token, which the oracle notices.

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "comm/runtime/rng.h"
#include "tests/sim/virtual_loop.h"
#include "worker/engine/executor.h"

namespace tandem::sim {

inline constexpr uint32_t kToyVocabulary = 97;
inline constexpr uint32_t kToyEos = 96;
inline constexpr uint32_t kToySlotBytes = sizeof(uint64_t);

inline uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15ull + b + 0x7f4a7c15ull;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9ull;
  return x ^ (x >> 32);
}

// The content of one position, given the fold over all earlier contents.
inline uint64_t slot_value(uint64_t fold, uint32_t position, uint32_t token) {
  return mix(mix(fold, position), token);
}

inline uint32_t token_of(uint64_t fold, uint64_t seed) {
  return static_cast<uint32_t>(mix(fold, seed) % kToyVocabulary);
}

// What the toy model must answer: output tokens after `prompt` until EOS or max_tokens.
inline std::vector<uint32_t> oracle(std::span<const uint32_t> prompt, uint32_t max_tokens,
                                    uint64_t seed, bool ignore_eos) {
  std::vector<uint32_t> tokens(prompt.begin(), prompt.end());
  std::vector<uint32_t> output;
  uint64_t fold = 0;
  for (uint32_t p = 0; p < tokens.size() && output.size() < max_tokens; ++p) {
    fold = mix(fold, slot_value(fold, p, tokens[p]));
    if (p + 1 < tokens.size()) continue;
    output.push_back(token_of(fold, seed));
    tokens.push_back(output.back());
    if (!ignore_eos && output.back() == kToyEos) break;
  }
  return output;
}

// Memory and compute of one simulated instance. Dies with its process.
class ToyExecutor final : public engine::Executor {
 public:
  ToyExecutor(NodeLoop& loop, Rng& rng, uint32_t num_blocks, uint32_t block_size,
              Duration step_cost)
      : loop_(loop), rng_(rng), block_size_(block_size), step_cost_(step_cost),
        memory_(size_t{num_blocks} * block_size * kToySlotBytes, std::byte{0xEE}) {}

  // The next plan takes that much longer: a hung kernel under a lively loop.
  void hang_next(Duration extra) { hang_ = extra; }

  void submit(engine::StepPlan plan, Done done) override {
    CHECK_EQ(plan.hash, engine::plan_hash(plan));
    Duration took = std::chrono::microseconds(500 + 50 * plan.num_tokens + rng_.below(500));
    took += step_cost_ + hang_;
    hang_ = Duration{0};
    auto shared = std::make_shared<engine::StepPlan>(std::move(plan));
    loop_.after(took, [this, shared, took, done = std::move(done)] {
      engine::StepResult result;
      result.sequence_number = shared->sequence_number;
      result.took = took;
      for (const engine::StepItem& item : shared->items) result.samples.push_back(run(item));
      done(std::move(result));
    });
  }

  std::span<std::byte> block_bytes(BlockId block) override {
    const size_t bytes = size_t{block_size_} * kToySlotBytes;
    return {memory_.data() + block.value * bytes, bytes};
  }

 private:
  std::byte* slot(const engine::StepItem& item, uint32_t position) {
    const BlockId block = item.block_table.at(position / block_size_);
    return block_bytes(block).data() + size_t{position % block_size_} * kToySlotBytes;
  }

  engine::StepSample run(const engine::StepItem& item) {
    uint64_t fold = 0;
    for (uint32_t p = 0; p < item.begin; ++p) {
      uint64_t stored;
      std::memcpy(&stored, slot(item, p), sizeof(stored));
      fold = mix(fold, stored);
    }
    for (uint32_t i = 0; i < item.tokens.size(); ++i) {
      const uint64_t value = slot_value(fold, item.begin + i, item.tokens[i]);
      std::memcpy(slot(item, item.begin + i), &value, sizeof(value));
      fold = mix(fold, value);
    }
    engine::StepSample sample;
    sample.sampled = item.sample;
    if (item.sample) sample.token = token_of(fold, item.sampling.seed());
    return sample;
  }

  NodeLoop& loop_;
  Rng& rng_;
  uint32_t block_size_;
  Duration step_cost_;
  std::vector<std::byte> memory_;
  Duration hang_{0};
};

}  // namespace tandem::sim
