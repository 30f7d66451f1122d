#include "worker/kv/lru_list.h"

#include "comm/runtime/check.h"

namespace tandem::kv {

LruList::LruList(uint32_t num_blocks) : nodes_(size_t{num_blocks} + 1) {
  nodes_.back() = {num_blocks, num_blocks, false};
}

bool LruList::contains(BlockId block) const {
  CHECK_LT(block.value + size_t{1}, nodes_.size());
  return nodes_[block.value].linked;
}

std::optional<BlockId> LruList::oldest() const {
  if (size_ == 0) return std::nullopt;
  return BlockId(nodes_.back().newer);
}

void LruList::push_newest(BlockId block) {
  CHECK(!contains(block));
  const uint32_t end = static_cast<uint32_t>(nodes_.size() - 1);
  const uint32_t last = nodes_[end].older;
  nodes_[block.value] = {last, end, true};
  nodes_[last].newer = block.value;
  nodes_[end].older = block.value;
  ++size_;
}

void LruList::remove(BlockId block) {
  CHECK(contains(block));
  Node& node = nodes_[block.value];
  nodes_[node.older].newer = node.newer;
  nodes_[node.newer].older = node.older;
  node.linked = false;
  --size_;
}

std::vector<BlockId> LruList::blocks() const {
  std::vector<BlockId> all;
  const uint32_t end = static_cast<uint32_t>(nodes_.size() - 1);
  for (uint32_t at = nodes_[end].newer; at != end; at = nodes_[at].newer) {
    all.push_back(BlockId(at));
    if (all.size() > size_) break;  // a damaged ring ends here, and the caller sees it
  }
  return all;
}

}  // namespace tandem::kv
