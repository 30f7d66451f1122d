#include "worker/engine/sequence.h"

#include <algorithm>

#include "comm/runtime/check.h"

namespace tandem::engine {

const char* phase_name(Phase phase) {
  switch (phase) {
    case Phase::kAwaitRoom: return "await_room";
    case Phase::kGranted: return "granted";
    case Phase::kPrefill: return "prefill";
    case Phase::kDecode: return "decode";
    case Phase::kSource: return "source";
    case Phase::kDone: return "done";
  }
  return "unknown";
}

std::vector<scheduler::Range> missing_ranges(const std::vector<bool>& have, uint32_t block_size,
                                             uint32_t num_tokens, bool sample) {
  std::vector<scheduler::Range> ranges;
  const auto add = [&](uint32_t begin, uint32_t end) {
    if (!ranges.empty() && ranges.back().end == begin) {
      ranges.back().end = end;
    } else {
      ranges.push_back({begin, end});
    }
  };
  const uint32_t num_blocks = (num_tokens + block_size - 1) / block_size;
  for (uint32_t block = 0; block < num_blocks; ++block) {
    if (block < have.size() && have[block]) continue;
    add(block * block_size, std::min(num_tokens, (block + 1) * block_size));
  }
  if (sample && (ranges.empty() || ranges.back().end < num_tokens)) {
    add(num_tokens - 1, num_tokens);
  }
  return ranges;
}

uint32_t cached_prompt_tokens(const Sequence& sequence) {
  return std::min(sequence.cached_tokens, sequence.prompt_length - 1);
}

uint64_t ledger_digest(const std::vector<wire::Hash128>& hashes, uint32_t first, uint32_t end) {
  CHECK_LE(first, end);
  CHECK_LE(end, hashes.size());
  return wire::payload_checksum(hashes.data() + first, (end - first) * sizeof(wire::Hash128));
}

}  // namespace tandem::engine
