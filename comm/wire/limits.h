#pragma once
// Sizes that bound every message. A peer that exceeds one is refused, never allocated for.

#include <cstddef>
#include <cstdint>

namespace tandem::wire {

inline constexpr uint32_t kProtocolVersion = 1;

// A control message: 8 MiB holds a prompt of more than a million tokens.
inline constexpr size_t kMaxControlBytes = 8u << 20;
// A link header (everything but a payload).
inline constexpr size_t kMaxLinkHeaderBytes = 64u << 10;
// One KV block on the wire.
inline constexpr size_t kMaxBlockBytes = 256u << 20;

}  // namespace tandem::wire
