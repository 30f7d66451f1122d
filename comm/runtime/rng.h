#pragma once
// Randomness for everything but sampling (which has its own counter RNG): ids, incarnations,
// seeds of unseeded requests. Comes in from outside, so a simulation replays exactly.

#include <cstdint>

namespace tandem {

class Rng {
 public:
  virtual ~Rng() = default;
  // 64 uniformly distributed bits. Single-threaded unless the implementation says otherwise.
  virtual uint64_t next() = 0;

  // Uniform in [0, bound) without modulo bias worth speaking of (bound << 2^64).
  // Requires: bound > 0.
  uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
};

// SplitMix64 (Steele, Lea, Flood 2014): tiny, seedable, good enough for ids and fault schedules.
class SplitMix64 final : public Rng {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}
  uint64_t next() override {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

// A seed from the operating system's entropy. Thread-safe.
uint64_t random_seed();

}  // namespace tandem
