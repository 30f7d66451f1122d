#pragma once
// Strong types for the identities of DESIGN §6. Values compare and hash; they never mix by accident.

#include <compare>
#include <cstdint>
#include <functional>

namespace tandem {

template <typename Tag, typename T>
struct Id {
  T value{};
  constexpr Id() = default;
  constexpr explicit Id(T v) : value(v) {}
  constexpr auto operator<=>(const Id&) const = default;
};

// 16-bit coordinator id | 48-bit counter. Made by the coordinator.
using RequestId = Id<struct RequestIdTag, uint64_t>;
// Random, one per life of a process that can be fenced. Never 0 for a live process.
using Incarnation = Id<struct IncarnationTag, uint64_t>;
// Minted by the decode side: 64 random bits, so that grants of different instances never meet at a
// prefill side that serves both.
using GrantId = Id<struct GrantIdTag, uint64_t>;
// Changes when the decode side of a request changes; 0 is the first.
using Attempt = Id<struct AttemptTag, uint32_t>;
// Changes when the prefill side of a grant changes; 0 is the first.
using Epoch = Id<struct EpochTag, uint32_t>;
// Index of a KV block in one instance's pool.
using BlockId = Id<struct BlockIdTag, uint32_t>;

}  // namespace tandem

template <typename Tag, typename T>
struct std::hash<tandem::Id<Tag, T>> {
  size_t operator()(const tandem::Id<Tag, T>& id) const noexcept {
    return std::hash<T>{}(id.value);
  }
};
