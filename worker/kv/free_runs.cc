#include "worker/kv/free_runs.h"

#include <algorithm>
#include <iterator>

#include "comm/runtime/check.h"

namespace tandem::kv {
namespace {

// How many runs are looked at for one that is long enough: bounds the cost of a fragmented pool.
constexpr int kMaxRunsLookedAt = 64;

}  // namespace

FreeRuns::FreeRuns(uint32_t num_blocks) : size_(num_blocks) {
  if (num_blocks > 0) runs_.emplace(0, num_blocks);
}

bool FreeRuns::contains(BlockId block) const {
  auto after = runs_.upper_bound(block.value);
  if (after == runs_.begin()) return false;
  const auto [begin, length] = *std::prev(after);
  return block.value - begin < length;
}

void FreeRuns::take_front(Runs::iterator run, uint32_t count, std::vector<BlockId>& out) {
  const auto [begin, length] = *run;
  CHECK_LE(count, length);
  for (uint32_t i = 0; i < count; ++i) out.push_back(BlockId(begin + i));
  runs_.erase(run);
  if (count < length) runs_.emplace(begin + count, length - count);
  size_ -= count;
}

std::vector<BlockId> FreeRuns::take(uint32_t count) {
  CHECK_LE(count, size_);
  std::vector<BlockId> blocks;
  if (count == 0) return blocks;
  blocks.reserve(count);
  int looked_at = 0;
  for (auto run = runs_.begin(); run != runs_.end() && looked_at < kMaxRunsLookedAt;
       ++run, ++looked_at) {
    if (run->second >= count) {
      take_front(run, count, blocks);
      return blocks;
    }
  }
  while (count > 0) {
    const uint32_t part = std::min(count, runs_.begin()->second);
    take_front(runs_.begin(), part, blocks);
    count -= part;
  }
  return blocks;
}

void FreeRuns::put(BlockId block) {
  CHECK(!contains(block));
  uint32_t begin = block.value;
  uint32_t length = 1;
  auto after = runs_.upper_bound(begin);
  if (after != runs_.end() && after->first == begin + 1) {
    length += after->second;
    after = runs_.erase(after);
  }
  if (after != runs_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == begin) {
      begin = before->first;
      length += before->second;
      runs_.erase(before);
    }
  }
  runs_.emplace(begin, length);
  ++size_;
}

bool FreeRuns::consistent(uint32_t num_blocks) const {
  uint64_t sum = 0;
  uint64_t end_before = 0;
  bool first = true;
  for (const auto& [begin, length] : runs_) {
    if (length == 0 || (!first && begin <= end_before)) return false;  // touching runs merge
    first = false;
    end_before = uint64_t{begin} + length;
    sum += length;
  }
  return sum == size_ && end_before <= num_blocks;
}

}  // namespace tandem::kv
