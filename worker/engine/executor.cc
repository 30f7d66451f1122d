#include "worker/engine/executor.h"

#include "comm/wire/token_hash.h"

namespace tandem::engine {

uint64_t plan_hash(const StepPlan& plan) {
  std::vector<uint64_t> words = {plan.sequence_number, plan.items.size()};
  for (const StepItem& item : plan.items) {
    words.insert(words.end(), {item.key, item.begin, item.sample ? 1u : 0u, item.tokens.size(),
                               item.block_table.size()});
    for (uint32_t token : item.tokens) words.push_back(token);
    for (BlockId block : item.block_table) words.push_back(block.value);
  }
  return wire::payload_checksum(words.data(), words.size() * sizeof(uint64_t));
}

}  // namespace tandem::engine
