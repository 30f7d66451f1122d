#include "worker/sampling/exact_math.h"

#include <bit>
#include <cstdint>

namespace tandem::sampling {
namespace {

constexpr double kLog2E = 1.4426950408889634;
constexpr double kLn2High = 6.93147180369123816490e-01;  // ln 2 with 33 bits: k * high is exact
constexpr double kLn2Low = 1.90821492927058770002e-10;   // the rest of ln 2
constexpr double kRound = 6755399441055744.0;            // 1.5 * 2^52: x + c - c rounds to integer
constexpr double kSmallest = -708.0;
constexpr int kExpTerms = 13;                            // r^14/14! < 5e-18 for |r| <= ln2 / 2
constexpr int kLogTerms = 11;                            // f^23/23 < 1e-18 for |f| <= 0.172
constexpr int kMantissaBits = 52;
constexpr int64_t kExponentBias = 1023;
constexpr double kSqrt2 = 1.4142135623730951;

}  // namespace

double exact_exp(double x) {
  if (x < kSmallest) return 0.0;
  const double k = (x * kLog2E + kRound) - kRound;
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = 1.0;  // Horner form of the Taylor series
  for (int n = kExpTerms; n >= 1; --n) sum = 1.0 + sum * r * (1.0 / n);
  const int64_t exponent = static_cast<int64_t>(k) + kExponentBias;
  return sum * std::bit_cast<double>(exponent << kMantissaBits);
}

double exact_log(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t exponent = static_cast<int64_t>(bits >> kMantissaBits) - kExponentBias;
  constexpr uint64_t kMantissa = (uint64_t{1} << kMantissaBits) - 1;
  double m = std::bit_cast<double>((bits & kMantissa) |
                                   (static_cast<uint64_t>(kExponentBias) << kMantissaBits));
  if (m > kSqrt2) {
    m *= 0.5;
    ++exponent;
  }
  // ln m = 2 atanh f with f = (m - 1) / (m + 1), |f| <= 0.172.
  const double f = (m - 1.0) / (m + 1.0);
  const double square = f * f;
  double sum = 0.0;
  for (int n = kLogTerms - 1; n >= 1; --n) sum = (sum + 1.0 / (2 * n + 1)) * square;
  const double e = static_cast<double>(exponent);
  return e * kLn2High + (2.0 * f + (2.0 * f * sum + e * kLn2Low));
}

}  // namespace tandem::sampling
