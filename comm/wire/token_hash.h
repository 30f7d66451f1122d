#pragma once
// Chained 128-bit hash of token blocks: the identity of a KV block's content.
// hash(block i) covers the seed (model digest, numerics class, tenant salt), every earlier block
// and the tokens of block i. XXH3-128; equal in every process (a published vector is in the test).

#include <compare>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tandem::wire {

struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  auto operator<=>(const Hash128&) const = default;
};

// The parent of a sequence's first block.
Hash128 chain_seed(std::string_view model_digest, std::string_view numerics_class,
                   std::string_view tenant_salt);

// tokens: one block, possibly partial (the last).
Hash128 chain_next(const Hash128& parent, std::span<const uint32_t> tokens);

// One hash per block, the partial last one included. Requires: block_size > 0.
std::vector<Hash128> chain_hashes(const Hash128& seed, std::span<const uint32_t> tokens,
                                  uint32_t block_size);

// XXH3-64, the payload checksum of a Push.
uint64_t payload_checksum(const void* data, size_t num_bytes);

}  // namespace tandem::wire
