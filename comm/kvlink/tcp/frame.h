#pragma once
// Frames on a connection:  [u32 header length, little-endian][u8 kind][header][piece of a payload]
// The header is a protobuf message of comm/wire/link.proto; only kPush is followed by bytes, as
// many as its piece_bytes says. Pure functions.

#include <cstdint>
#include <string>
#include <vector>

#include "comm/runtime/check.h"
#include "comm/wire/limits.h"

namespace tandem::kvlink {

enum class FrameKind : uint8_t {
  kHello = 1,      // LinkHello, the first frame of the connecting side
  kWelcome = 2,    // LinkWelcome, the answer
  kPush = 3,       // Push
  kCommit = 4,     // Commit
  kCommitted = 5,  // Committed, to the connecting side
};

inline constexpr size_t kFramePrefixBytes = 5;

// Small enough that a frame built by copying is still in the second-level cache when it is sent.
inline constexpr size_t kMaxPieceBytes = 256u << 10;
static_assert(kMaxPieceBytes <= 1u << 20);

// How many parts of one connection may be under way at once: the receiver's ring has this many
// slots, and the sender starts no further part.
inline constexpr uint32_t kMaxOpenParts = 4;

// Appends prefix and header to out. Requires: the header is within kMaxLinkHeaderBytes (checked).
template <typename Message>
void append_frame(FrameKind kind, const Message& header, std::vector<std::byte>& out) {
  const std::string text = header.SerializeAsString();
  CHECK_LE(text.size(), wire::kMaxLinkHeaderBytes);
  const auto length = static_cast<uint32_t>(text.size());
  for (int shift = 0; shift < 32; shift += 8) out.push_back(std::byte(length >> shift));
  out.push_back(std::byte(kind));
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  out.insert(out.end(), bytes, bytes + text.size());
}

struct FramePrefix {
  uint32_t header_bytes = 0;
  uint8_t kind = 0;
};

// Requires: kFramePrefixBytes readable bytes.
FramePrefix parse_prefix(const std::byte* bytes);

}  // namespace tandem::kvlink
