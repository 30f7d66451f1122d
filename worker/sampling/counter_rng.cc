#include "worker/sampling/counter_rng.h"

#include <bit>

#include "worker/sampling/exact_math.h"

namespace tandem::sampling {
namespace {

constexpr uint64_t kMultiplier0 = 0xD2511F53;
constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;
constexpr uint32_t kSamplingDomain = 0x54414E44;  // keeps later uses of the same seed apart

}  // namespace

PhiloxCounter philox4x32_10(PhiloxCounter c, PhiloxKey k) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = kMultiplier0 * c[0];
    const uint64_t p1 = kMultiplier1 * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k[0] += kWeyl0;
    k[1] += kWeyl1;
  }
  return c;
}

PhiloxCounter token_bits(const NoiseKey& key, uint32_t quad) {
  return philox4x32_10({quad, key.position, key.choice, kSamplingDomain},
                       {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)});
}

uint32_t token_bits_of(const NoiseKey& key, uint32_t token) {
  return token_bits(key, token / 4)[token % 4];
}

double gumbel(uint32_t bits) {
  const double u = (static_cast<double>(bits) + 0.5) * 0x1p-32;
  return -exact_log(-exact_log(u));
}

bool gumbel_may_exceed(uint32_t bits, double distance) {
  // gumbel > d needs -ln u < e^-d; since -ln u >= 1 - u, it needs 1 - u < e^-d. With t = ~bits,
  // 1 - u > t / 2^32 >= 2^-(1 + zeros): the noise is below d once d log2(e) > 1 + zeros.
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kSlack = 1e-6;  // far above the rounding of gumbel() and of the product
  return distance * kLog2E <= 1.0 + std::countl_zero(~bits) + kSlack;
}

}  // namespace tandem::sampling
