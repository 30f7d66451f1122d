#include "worker/sampling/counter_rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "worker/sampling/exact_math.h"

namespace tandem::sampling {
namespace {

// Known answers published with the Random123 library.
TEST(Philox, MatchesPublishedVectors) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32_10({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                          {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(TokenBits, DependOnEveryPartOfTheKey) {
  const NoiseKey key{.seed = 7, .choice = 1, .position = 100};
  const uint32_t bits = token_bits_of(key, 5);
  EXPECT_EQ(bits, token_bits_of(key, 5));
  EXPECT_NE(bits, token_bits_of(key, 6));
  EXPECT_NE(bits, token_bits_of({.seed = 8, .choice = 1, .position = 100}, 5));
  const uint64_t high_seed = 7 + (uint64_t{1} << 32);
  EXPECT_NE(bits, token_bits_of({.seed = high_seed, .choice = 1, .position = 100}, 5));
  EXPECT_NE(bits, token_bits_of({.seed = 7, .choice = 2, .position = 100}, 5));
  EXPECT_NE(bits, token_bits_of({.seed = 7, .choice = 1, .position = 101}, 5));
}

TEST(Gumbel, IsBounded) {
  EXPECT_LE(gumbel(0xffffffff), kGumbelMax);
  EXPECT_GT(gumbel(0xffffffff), kGumbelMax - 0.01);
  EXPECT_GE(gumbel(0), kGumbelMin);
  EXPECT_LT(gumbel(0), kGumbelMin + 0.03);
}

TEST(Gumbel, ShortcutNeverHidesAWinner) {
  std::mt19937 rng(1);
  for (int i = 0; i < 200000; ++i) {
    // Few leading ones are the rule; masks make the rare, high values common.
    const uint32_t bits = static_cast<uint32_t>(rng()) | ~(0xffffffffU >> (rng() % 33 % 32));
    const double noise = gumbel(bits);
    EXPECT_TRUE(gumbel_may_exceed(bits, noise)) << bits;
    EXPECT_TRUE(gumbel_may_exceed(bits, noise - 1.0)) << bits;
  }
}

TEST(Gumbel, ShortcutIsUseful) {
  std::mt19937 rng(2);
  int passed = 0;
  for (int i = 0; i < 100000; ++i) passed += gumbel_may_exceed(static_cast<uint32_t>(rng()), 8.0);
  EXPECT_LT(passed, 150);  // 2 e^-8 of them
}

TEST(ExactMath, AgreesWithTheCLibrary) {
  std::mt19937 rng(3);
  std::uniform_real_distribution<double> uniform(-700.0, 700.0);
  for (int i = 0; i < 100000; ++i) {
    const double x = uniform(rng);
    EXPECT_NEAR(exact_exp(x) / std::exp(x), 1.0, 1e-15) << x;
    const double y = std::exp(x);
    EXPECT_NEAR(exact_log(y), std::log(y), 1e-15 * std::abs(x) + 1e-16) << y;
  }
  for (int i = 1; i < 60; ++i) {
    const double near_one = 1.0 - std::ldexp(1.0, -std::min(i, 53));
    EXPECT_NEAR(exact_log(near_one) / std::log(near_one), 1.0, 1e-15) << i;
  }
  EXPECT_EQ(exact_exp(0.0), 1.0);
  EXPECT_EQ(exact_log(1.0), 0.0);
  EXPECT_EQ(exact_exp(-1e300), 0.0);
}

}  // namespace
}  // namespace tandem::sampling
