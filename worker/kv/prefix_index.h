#pragma once
// PrefixIndex: content -> block. A block is found by the chained hash of all tokens up to its end;
// a hit counts only if the parent hash and the block's own tokens are equal too, so a weak or
// colliding hash costs a miss, never a wrong block.
//
//   seed --[t0..t31]--> h0 --[t32..t63]--> h1 --...      entry of h1: {block, parent h0, t32..t63}
//
// Owned by BlockPool; loop thread only; knows nothing of leases or eviction.

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "comm/runtime/ids.h"
#include "comm/wire/token_hash.h"

namespace tandem::kv {

// The identity of one whole block's content.
struct BlockContent {
  wire::Hash128 parent;              // of the block before it, or the chain's seed
  wire::Hash128 hash;                // chain_next(parent, tokens)
  std::span<const uint32_t> tokens;  // exactly block_size
};

// A lookup of the leading blocks of one sequence.
struct PrefixQuery {
  wire::Hash128 seed;
  std::span<const wire::Hash128> hashes;  // chain_hashes(seed, tokens, block_size)
  std::span<const uint32_t> tokens;
  uint32_t block_size = 0;
  uint32_t max_blocks = 0;  // see max_cached_blocks
};

// The most blocks a prompt may take from the cache: whole ones, and at least one token is always
// computed (a prompt of exactly 2 blocks takes 1). Requires: block_size > 0.
constexpr uint32_t max_cached_blocks(uint32_t num_tokens, uint32_t block_size) {
  return num_tokens == 0 ? 0 : (num_tokens - 1) / block_size;
}

class PrefixIndex {
 public:
  // hash_bits < 128 truncates the key (not the comparison): tests make collisions with it.
  // Requires: 1 <= hash_bits <= 128.
  explicit PrefixIndex(uint32_t hash_bits);

  size_t size() const { return entries_.size(); }

  // Remembers the block. False if the key is taken: the old entry stays, whatever its content.
  // Requires: the block isn't in the index.
  bool insert(BlockId block, const BlockContent& content);
  // Requires: the block is in the index.
  void erase(BlockId block);
  bool contains(BlockId block) const { return keys_.contains(block); }

  // The leading blocks whose content equals the query's, at most max_blocks.
  std::vector<BlockId> match(const PrefixQuery& query) const;

  // True when both maps mirror each other.
  bool consistent() const;

 private:
  struct Entry {
    BlockId block;
    wire::Hash128 parent;
    std::vector<uint32_t> tokens;
  };
  struct KeyHash {
    size_t operator()(const wire::Hash128& key) const { return key.low ^ (key.high >> 1); }
  };
  wire::Hash128 truncate(const wire::Hash128& hash) const;

  const uint32_t hash_bits_;
  std::unordered_map<wire::Hash128, Entry, KeyHash> entries_;  // looked up, never iterated over
  std::unordered_map<BlockId, wire::Hash128> keys_;            // the key of each indexed block
};

}  // namespace tandem::kv
