#pragma once
// Random numbers without state: a pure function of (seed, choice, position, token id).
// Replaying, moving or re-batching a request therefore never changes its noise.

#include <array>
#include <cstdint>

namespace tandem::sampling {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key);

// Names one sampled token: `choice` counts the answers of a request (n > 1), `position` is the
// absolute index of the token to be sampled (prompt length + generated index).
struct NoiseKey {
  uint64_t seed = 0;
  uint32_t choice = 0;
  uint32_t position = 0;
};

// The 32 random bits of each of the four tokens 4 * quad .. 4 * quad + 3.
PhiloxCounter token_bits(const NoiseKey& key, uint32_t quad);

// Random bits of one token.
uint32_t token_bits_of(const NoiseKey& key, uint32_t token);

// Gumbel(0, 1) noise of the uniform (bits + 1/2) / 2^32: -ln(-ln u). Increasing in bits.
// Lies in [kGumbelMin, kGumbelMax].
double gumbel(uint32_t bits);
inline constexpr double kGumbelMax = 22.875;  // -ln(-ln(1 - 2^-33)) = 22.8738...
inline constexpr double kGumbelMin = -3.15;   // -ln(33 ln 2) = -3.1301...

// False only if gumbel(bits) < distance for certain; costs no logarithm.
bool gumbel_may_exceed(uint32_t bits, double distance);

}  // namespace tandem::sampling
