#pragma once
// BlockPool: the metadata of an instance's KV blocks. Ids only: the memory lies elsewhere.
//
//            lease                      release, never published
//   free ------------> leased (refs>=1) -------------------------> free
//     ^                 ^      |  ^
//     | evict (LRU)     |      |  | publish: also in the prefix index
//     |            share|      v release, published
//     +---------------- cached
//
// A leased block may be shared by several leases and be in the prefix index. A cached block has no
// lease, is in the index and in the LRU list. free + cached + leased = total, always.
// Owned by the engine; loop thread only; never waits, never touches contents, never acts on time.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "comm/runtime/ids.h"
#include "comm/runtime/result.h"
#include "worker/kv/block_lease.h"
#include "worker/kv/free_runs.h"
#include "worker/kv/lru_list.h"
#include "worker/kv/prefix_index.h"

namespace tandem::kv {

struct BlockCounts {
  uint32_t free = 0;
  uint32_t cached = 0;
  uint32_t leased = 0;
  uint32_t total = 0;

  // What a lease of fresh blocks could get.
  uint32_t available() const { return free + cached; }
  auto operator<=>(const BlockCounts&) const = default;
};

class BlockPool {
 public:
  // hash_bits: see PrefixIndex. Requires: num_blocks > 0.
  explicit BlockPool(uint32_t num_blocks, uint32_t hash_bits = 128);
  // Requires: no lease is held.
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  BlockCounts counts() const;

  // A table of `shared` blocks (from match(), or of another lease: a fork) followed by num_fresh
  // fresh ones; cached blocks are evicted, least recently used first, where free ones don't
  // suffice. Nothing, and no change, when there isn't room for all.
  // Requires: every shared block is cached or leased, none twice; at least one block in total.
  std::optional<BlockLease> lease(const LeaseOwner& owner, std::span<const BlockId> shared,
                                  uint32_t num_fresh);
  // Whether lease(…, shared, num_fresh) would succeed.
  bool can_lease(std::span<const BlockId> shared, uint32_t num_fresh) const;

  // The leading published blocks of a sequence; they count as used now. They stay only until the
  // next lease or extend: pass them to lease() at once.
  std::vector<BlockId> match(const PrefixQuery& query);
  // The same without counting as use.
  std::vector<BlockId> peek(const PrefixQuery& query) const { return index_.match(query); }

  // Makes a leased block visible to match(). Call it once its whole content is computed and
  // finite. False if that content (or, with a truncated hash, its key) is already indexed, or the
  // block already is: the older one stays. Requires: the block is leased.
  bool publish(BlockId block, const BlockContent& content);
  // Drops every cached block (not those that are leased).
  void evict_all_cached();

  uint32_t num_leases() const { return static_cast<uint32_t>(tables_.size()); }
  uint64_t num_evictions() const { return num_evictions_; }
  // Owners of all leases, oldest lease first.
  std::vector<LeaseOwner> owners() const;

  // Full scan: recomputes every count from the tables. The error names the first contradiction.
  Status audit() const;
  // CHECKs audit().
  void check() const;

 private:
  friend class BlockLease;
  struct Table {
    LeaseOwner owner;
    std::vector<BlockId> blocks;
  };

  Table& table(uint64_t id);
  bool extend(uint64_t id, uint32_t num_fresh);
  void shrink(uint64_t id, uint32_t num_blocks);
  void release(uint64_t id);

  void add_ref(BlockId block);
  void drop_ref(BlockId block);
  // Requires: count <= available().
  std::vector<BlockId> take_fresh(uint32_t count);
  void evict(BlockId block);
  Error contradiction(const char* what, uint32_t block) const;

  std::vector<uint32_t> refs_;        // leases per block
  uint32_t num_leased_ = 0;           // blocks with refs >= 1
  FreeRuns free_;
  LruList lru_;
  PrefixIndex index_;
  std::map<uint64_t, Table> tables_;  // by lease, in order of their making
  uint64_t next_lease_ = 1;
  uint64_t num_evictions_ = 0;
};

}  // namespace tandem::kv
