#pragma once
// BlockLease: the only way to hold KV blocks. A move-only handle for the block table of one owner;
// its destructor gives the blocks back (published ones fall back to cached, others become free).
// Loop thread only; must not outlive its pool; never touches block contents.

#include <cstdint>
#include <span>
#include <vector>

#include "comm/runtime/clock.h"
#include "comm/runtime/ids.h"

namespace tandem::kv {

class BlockPool;

// Who holds blocks, and until when. The pool reports owners but never acts on deadlines: expiry is
// an edge of the owner's state machine.
struct LeaseOwner {
  uint64_t key = 0;          // the engine's key of the sequence or grant
  Incarnation incarnation;   // of the peer the lease is for; 0 = this instance
  TimePoint deadline{};
};

class BlockLease {
 public:
  BlockLease() = default;  // holds nothing
  BlockLease(BlockLease&& other) noexcept;
  BlockLease& operator=(BlockLease&& other) noexcept;
  ~BlockLease() { release(); }

  bool held() const { return pool_ != nullptr; }

  // The block table, in sequence order: shared blocks first. Empty when nothing is held.
  std::span<const BlockId> blocks() const;
  uint32_t num_blocks() const { return static_cast<uint32_t>(blocks().size()); }
  // Requires: held().
  const LeaseOwner& owner() const;

  // A grant becomes a sequence; a deadline moves. Requires: held().
  void set_owner(const LeaseOwner& owner);
  void renew(TimePoint deadline);

  // Appends fresh blocks; all or nothing. False when the pool can't. Requires: held().
  [[nodiscard]] bool extend(uint32_t num_fresh);
  // Gives back every block behind the first `num_blocks`. Requires: held().
  void shrink(uint32_t num_blocks);
  // Gives everything back; the handle then holds nothing. No effect when nothing is held.
  void release();

 private:
  friend class BlockPool;
  BlockLease(BlockPool* pool, uint64_t id) : pool_(pool), id_(id) {}

  BlockPool* pool_ = nullptr;
  uint64_t id_ = 0;
};

}  // namespace tandem::kv
