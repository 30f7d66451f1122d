#include "worker/kv/prefix_index.h"

#include <algorithm>

#include "comm/runtime/check.h"

namespace tandem::kv {

PrefixIndex::PrefixIndex(uint32_t hash_bits) : hash_bits_(hash_bits) {
  CHECK(hash_bits >= 1 && hash_bits <= 128);
}

wire::Hash128 PrefixIndex::truncate(const wire::Hash128& hash) const {
  const auto keep = [](uint64_t word, uint32_t bits) {
    return bits == 0 ? 0 : bits >= 64 ? word : word & ((uint64_t{1} << bits) - 1);
  };
  return {keep(hash.low, std::min(hash_bits_, 64u)),
          keep(hash.high, hash_bits_ > 64 ? hash_bits_ - 64 : 0)};
}

bool PrefixIndex::insert(BlockId block, const BlockContent& content) {
  CHECK(!contains(block));
  CHECK(!content.tokens.empty());
  const wire::Hash128 key = truncate(content.hash);
  Entry entry{block, content.parent, {content.tokens.begin(), content.tokens.end()}};
  if (!entries_.try_emplace(key, std::move(entry)).second) return false;
  keys_.emplace(block, key);
  return true;
}

void PrefixIndex::erase(BlockId block) {
  const auto found = keys_.find(block);
  CHECK(found != keys_.end());
  CHECK_EQ(entries_.erase(found->second), 1u);
  keys_.erase(found);
}

std::vector<BlockId> PrefixIndex::match(const PrefixQuery& query) const {
  CHECK_GT(query.block_size, 0u);
  const size_t whole = query.tokens.size() / query.block_size;
  const size_t limit = std::min({whole, query.hashes.size(), size_t{query.max_blocks}});
  std::vector<BlockId> blocks;
  wire::Hash128 parent = query.seed;
  for (size_t i = 0; i < limit; ++i) {
    const auto found = entries_.find(truncate(query.hashes[i]));
    if (found == entries_.end()) break;
    const Entry& entry = found->second;
    const auto tokens = query.tokens.subspan(i * query.block_size, query.block_size);
    if (entry.parent != parent || !std::ranges::equal(entry.tokens, tokens)) break;
    blocks.push_back(entry.block);
    parent = query.hashes[i];
  }
  return blocks;
}

bool PrefixIndex::consistent() const {
  if (entries_.size() != keys_.size()) return false;
  return std::ranges::all_of(keys_, [&](const auto& item) {
    const auto found = entries_.find(item.second);
    return found != entries_.end() && found->second.block == item.first;
  });
}

}  // namespace tandem::kv
