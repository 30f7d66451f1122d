#include <bit>
#include <cstdint>

#include "kernels/cpu/reference/kernels.h"

namespace tandem::cpu::reference {

// e^x = 2^n * e^r with n = round(x / ln 2), |r| <= ln 2 / 2; e^r by its Taylor series in double,
// whose 12 terms leave an error below 1e-15.
float exp_f32(float x) {
  if (!(x > -104.0f)) return x != x ? x : 0.0f;
  if (x > 89.0f) return std::bit_cast<float>(0x7f800000u);
  constexpr double kLog2E = 1.4426950408889634074;
  constexpr double kLn2 = 0.69314718055994530942;
  const double scaled = static_cast<double>(x) * kLog2E;
  const int n = static_cast<int>(scaled + (scaled < 0 ? -0.5 : 0.5));
  const double r = static_cast<double>(x) - n * kLn2;
  double sum = 1;
  for (int i = 12; i >= 1; --i) sum = 1 + sum * r / i;
  const double power = std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52);
  return static_cast<float>(sum * power);
}

}  // namespace tandem::cpu::reference
