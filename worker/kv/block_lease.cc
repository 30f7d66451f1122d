#include "worker/kv/block_lease.h"

#include <utility>

#include "comm/runtime/check.h"
#include "worker/kv/block_pool.h"

namespace tandem::kv {

BlockLease::BlockLease(BlockLease&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), id_(std::exchange(other.id_, 0)) {}

BlockLease& BlockLease::operator=(BlockLease&& other) noexcept {
  if (this == &other) return *this;
  release();
  pool_ = std::exchange(other.pool_, nullptr);
  id_ = std::exchange(other.id_, 0);
  return *this;
}

std::span<const BlockId> BlockLease::blocks() const {
  if (!held()) return {};
  return pool_->table(id_).blocks;
}

const LeaseOwner& BlockLease::owner() const {
  CHECK(held());
  return pool_->table(id_).owner;
}

void BlockLease::set_owner(const LeaseOwner& owner) {
  CHECK(held());
  pool_->table(id_).owner = owner;
}

void BlockLease::renew(TimePoint deadline) {
  CHECK(held());
  pool_->table(id_).owner.deadline = deadline;
}

bool BlockLease::extend(uint32_t num_fresh) {
  CHECK(held());
  return pool_->extend(id_, num_fresh);
}

void BlockLease::shrink(uint32_t num_blocks) {
  CHECK(held());
  pool_->shrink(id_, num_blocks);
}

void BlockLease::release() {
  if (!held()) return;
  std::exchange(pool_, nullptr)->release(std::exchange(id_, 0));
}

}  // namespace tandem::kv
