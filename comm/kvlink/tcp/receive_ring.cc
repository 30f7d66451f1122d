#include "comm/kvlink/tcp/receive_ring.h"

#include <algorithm>

#include "comm/runtime/check.h"

namespace tandem::kvlink {
namespace {

Error wrong(const char* what) { return {ErrorCode::kCorrupt, what, ""}; }

bool same_part(const wire::Push& a, const wire::Push& b) {
  return a.grant() == b.grant() && a.epoch() == b.epoch() && a.block_index() == b.block_index();
}

}  // namespace

ReceiveRing::ReceiveRing(size_t max_part_bytes)
    : max_part_bytes_(max_part_bytes),
      memory_(std::make_unique_for_overwrite<std::byte[]>(max_part_bytes * kMaxOpenParts)) {}

ReceiveRing::Slot* ReceiveRing::find(const wire::Push& piece) {
  const auto found = std::ranges::find_if(
      slots_, [&](const Slot& slot) { return slot.used && same_part(slot.header, piece); });
  return found == slots_.end() ? nullptr : &*found;
}

std::span<std::byte> ReceiveRing::memory(const Slot& slot) {
  const size_t index = static_cast<size_t>(&slot - slots_.data());
  return {memory_.get() + index * max_part_bytes_, max_part_bytes_};
}

Result<std::span<std::byte>> ReceiveRing::place(const wire::Push& piece) {
  const uint64_t total = piece.payload_bytes();
  if (total == 0 || total > max_part_bytes_) return wrong("a part has an impossible size");
  if (piece.piece_bytes() == 0 || piece.piece_begin() > total ||
      piece.piece_bytes() > total - piece.piece_begin()) {
    return wrong("a piece lies outside its part");
  }
  Slot* slot = find(piece);
  if (piece.piece_begin() == 0) {
    if (slot != nullptr) return wrong("a part begins twice");
    const auto free = std::ranges::find(slots_, false, &Slot::used);
    if (free == slots_.end()) return wrong("too many parts at once");
    slot = &*free;
    *slot = {true, piece, 0};
  }
  if (slot == nullptr || slot->received != piece.piece_begin() ||
      slot->header.payload_bytes() != total) {
    return wrong("a piece doesn't follow the one before it");
  }
  current_ = slot;
  current_bytes_ = piece.piece_bytes();
  return memory(*slot).subspan(piece.piece_begin(), current_bytes_);
}

std::optional<ReceiveRing::Part> ReceiveRing::complete_piece() {
  CHECK(current_ != nullptr);
  Slot& slot = *current_;
  current_ = nullptr;
  slot.received += current_bytes_;
  if (slot.received < slot.header.payload_bytes()) return std::nullopt;
  slot.used = false;
  return Part{slot.header, memory(slot).first(slot.received)};
}

void ReceiveRing::withdraw(const wire::Push& piece) {
  if (Slot* slot = find(piece)) slot->used = false;
}

}  // namespace tandem::kvlink
