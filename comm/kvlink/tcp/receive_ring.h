#pragma once
// ReceiveRing: the memory in which one connection's parts land before they are verified. A fixed
// number of slots, allocated once; a slot is taken by a part's first piece and freed by its last.
// Owned by one incoming connection; link thread only; knows neither grants nor blocks.

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "comm/kvlink/tcp/frame.h"
#include "comm/runtime/result.h"
#include "comm/wire/link.pb.h"

namespace tandem::kvlink {

class ReceiveRing {
 public:
  // max_part_bytes: of the longest part.
  explicit ReceiveRing(size_t max_part_bytes);

  // Where the piece's bytes belong. kCorrupt when the piece doesn't follow the one before it, is
  // too long, or is of one part too many.
  Result<std::span<std::byte>> place(const wire::Push& piece);
  // The piece of the last place() has arrived: the whole part if that was its last piece. The bytes
  // stay valid until the next place().
  struct Part {
    wire::Push header;
    std::span<std::byte> bytes;
  };
  std::optional<Part> complete_piece();
  // Forgets a part of which pieces have arrived; unknown ones are ignored.
  void withdraw(const wire::Push& piece);

 private:
  struct Slot {
    bool used = false;
    wire::Push header;
    size_t received = 0;
  };
  Slot* find(const wire::Push& piece);
  std::span<std::byte> memory(const Slot& slot);

  const size_t max_part_bytes_;
  std::unique_ptr<std::byte[]> memory_;
  std::array<Slot, kMaxOpenParts> slots_;
  Slot* current_ = nullptr;       // of the piece under way
  size_t current_bytes_ = 0;
};

}  // namespace tandem::kvlink
