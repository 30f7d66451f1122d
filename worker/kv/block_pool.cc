#include "worker/kv/block_pool.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "comm/runtime/check.h"
#include "comm/runtime/planted.h"

namespace tandem::kv {

BlockPool::BlockPool(uint32_t num_blocks, uint32_t hash_bits)
    : refs_(num_blocks, 0), free_(num_blocks), lru_(num_blocks), index_(hash_bits) {
  CHECK_GT(num_blocks, 0u);
}

BlockPool::~BlockPool() { CHECK(tables_.empty()); }

BlockCounts BlockPool::counts() const {
  const BlockCounts counts{free_.size(), lru_.size(), num_leased_,
                           static_cast<uint32_t>(refs_.size())};
  CHECK_EQ(counts.free + counts.cached + counts.leased, counts.total);
  return counts;
}

bool BlockPool::can_lease(std::span<const BlockId> shared, uint32_t num_fresh) const {
  uint32_t shared_cached = 0;
  for (const BlockId block : shared) {
    CHECK_LT(block.value, refs_.size());
    if (refs_[block.value] == 0) ++shared_cached;
  }
  CHECK_LE(shared_cached, lru_.size());
  return num_fresh <= free_.size() + (lru_.size() - shared_cached);
}

std::optional<BlockLease> BlockPool::lease(const LeaseOwner& owner,
                                           std::span<const BlockId> shared, uint32_t num_fresh) {
  CHECK(!shared.empty() || num_fresh > 0);
  if (!can_lease(shared, num_fresh)) return std::nullopt;
  const uint64_t id = next_lease_++;
  Table made{owner, {shared.begin(), shared.end()}};
  for (const BlockId block : shared) add_ref(block);  // before any eviction
  for (const BlockId block : take_fresh(num_fresh)) made.blocks.push_back(block);
  tables_.emplace(id, std::move(made));
  return BlockLease(this, id);
}

std::vector<BlockId> BlockPool::match(const PrefixQuery& query) {
  const std::vector<BlockId> blocks = index_.match(query);
  // Last block first: of one sequence the tail is evicted before the head it depends on.
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    if (!lru_.contains(*block)) continue;
    lru_.remove(*block);
    lru_.push_newest(*block);
  }
  return blocks;
}

bool BlockPool::publish(BlockId block, const BlockContent& content) {
  CHECK_LT(block.value, refs_.size());
  if (planted(Bug::kReleaseBlockEarly) && refs_[block.value] == 0) return false;
  CHECK_GT(refs_[block.value], 0u);
  if (index_.contains(block)) return false;
  return index_.insert(block, content);
}

void BlockPool::evict_all_cached() {
  while (const auto block = lru_.oldest()) evict(*block);
}

std::vector<LeaseOwner> BlockPool::owners() const {
  std::vector<LeaseOwner> owners;
  for (const auto& [id, held] : tables_) owners.push_back(held.owner);
  return owners;
}

BlockPool::Table& BlockPool::table(uint64_t id) {
  const auto found = tables_.find(id);
  CHECK(found != tables_.end());
  return found->second;
}

bool BlockPool::extend(uint64_t id, uint32_t num_fresh) {
  if (num_fresh > free_.size() + lru_.size()) return false;
  Table& held = table(id);
  for (const BlockId block : take_fresh(num_fresh)) held.blocks.push_back(block);
  return true;
}

void BlockPool::shrink(uint64_t id, uint32_t num_blocks) {
  Table& held = table(id);
  CHECK_LE(num_blocks, held.blocks.size());
  while (held.blocks.size() > num_blocks) {  // from the tail: see match()
    const BlockId block = held.blocks.back();
    held.blocks.pop_back();
    drop_ref(block);
  }
}

void BlockPool::release(uint64_t id) {
  shrink(id, 0);
  tables_.erase(id);
}

void BlockPool::add_ref(BlockId block) {
  CHECK(!free_.contains(block));
  if (refs_[block.value]++ > 0) return;
  ++num_leased_;
  lru_.remove(block);
}

void BlockPool::drop_ref(BlockId block) {
  if (planted(Bug::kReleaseBlockEarly)) {
    if (refs_[block.value] == 0) return;  // the early release came before
    refs_[block.value] = 1;
  }
  CHECK_GT(refs_[block.value], 0u);
  if (--refs_[block.value] > 0) return;
  --num_leased_;
  if (index_.contains(block)) {
    lru_.push_newest(block);
  } else {
    free_.put(block);
  }
}

std::vector<BlockId> BlockPool::take_fresh(uint32_t count) {
  CHECK_LE(count, free_.size() + lru_.size());
  while (free_.size() < count) {
    const auto oldest = lru_.oldest();
    CHECK(oldest.has_value());
    evict(*oldest);
  }
  std::vector<BlockId> blocks = free_.take(count);
  for (const BlockId block : blocks) {
    CHECK_EQ(refs_[block.value], 0u);
    refs_[block.value] = 1;
  }
  num_leased_ += count;
  return blocks;
}

void BlockPool::evict(BlockId block) {
  lru_.remove(block);
  index_.erase(block);
  free_.put(block);
  ++num_evictions_;
}

Error BlockPool::contradiction(const char* what, uint32_t block) const {
  return {ErrorCode::kInternal, std::string(what) + " (block " + std::to_string(block) + ")", ""};
}

Status BlockPool::audit() const {
  const uint32_t total = static_cast<uint32_t>(refs_.size());
  std::vector<uint32_t> held_by(total, 0);
  for (const auto& [id, held] : tables_) {
    for (const BlockId block : held.blocks) {
      if (block.value >= total) return contradiction("a table names no block", block.value);
      ++held_by[block.value];
    }
  }
  std::vector<uint32_t> in_lru(total, 0);
  for (const BlockId block : lru_.blocks()) ++in_lru[block.value];
  uint32_t num_cached = 0;
  uint32_t num_leased = 0;
  for (uint32_t b = 0; b < total; ++b) {
    const bool is_free = free_.contains(BlockId(b));
    if (held_by[b] != refs_[b]) return contradiction("references differ from the tables", b);
    if (in_lru[b] != (lru_.contains(BlockId(b)) ? 1u : 0u)) return contradiction("LRU ring", b);
    if (is_free + in_lru[b] + (refs_[b] > 0) != 1) return contradiction("not in one state", b);
    if (is_free && index_.contains(BlockId(b))) return contradiction("free but indexed", b);
    if (in_lru[b] && !index_.contains(BlockId(b))) return contradiction("cached, not indexed", b);
    num_cached += in_lru[b];
    num_leased += refs_[b] > 0;
  }
  if (num_cached != lru_.size() || num_leased != num_leased_) {
    return contradiction("counters differ from the scan", total);
  }
  if (!free_.consistent(total)) return contradiction("free runs", total);
  if (!index_.consistent()) return contradiction("prefix index", total);
  return {};
}

void BlockPool::check() const {
  const Status result = audit();
  if (!result.ok()) std::fprintf(stderr, "block pool: %s\n", result.error().message.c_str());
  CHECK(result.ok());
}

}  // namespace tandem::kv
