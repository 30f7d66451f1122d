#include "worker/sampling/exact_math.h"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tandem::sampling {
namespace {

constexpr double kLog2E = 1.4426950408889634;
constexpr double kLn2High = 6.93147180369123816490e-01;  // ln 2 with 33 bits: k * high is exact
constexpr double kLn2Low = 1.90821492927058770002e-10;   // the rest of ln 2
constexpr double kRound = 6755399441055744.0;            // 1.5 * 2^52: adding it rounds
constexpr double kSmallest = -708.0;
// 1 / n! for n = 0 .. 13: r^14 / 14! < 5e-18 for |r| <= ln 2 / 2.
constexpr double kInverseFactorial[] = {
    1.0,         1.0,          1.0 / 2,       1.0 / 6,        1.0 / 24,
    1.0 / 120,   1.0 / 720,    1.0 / 5040,    1.0 / 40320,    1.0 / 362880,
    1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
constexpr int kExpTerms = 13;
constexpr int kLogTerms = 11;                            // f^23/23 < 1e-18 for |f| <= 0.172
constexpr int kMantissaBits = 52;
constexpr int64_t kExponentBias = 1023;
constexpr double kSqrt2 = 1.4142135623730951;

// Free of branches, so that loops over it become vector code; lanes don't change the bits.
inline double exp_of(double x) {
  // The low bits of `shifted` hold k, the nearest integer to x / ln 2.
  const double shifted = x * kLog2E + kRound;
  const double k = shifted - kRound;
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = kInverseFactorial[kExpTerms];  // the Taylor series by Horner
  for (int n = kExpTerms - 1; n >= 0; --n) sum = sum * r + kInverseFactorial[n];
  const int64_t exponent = std::bit_cast<int64_t>(shifted) << kMantissaBits;
  const double scaled = std::bit_cast<double>(std::bit_cast<int64_t>(sum) + exponent);
  return x < kSmallest ? 0.0 : scaled;
}

}  // namespace

double exact_exp(double x) { return exp_of(x); }

double sum_exact_exp(std::span<const float> x, double max, double temperature) {
  constexpr size_t kLanes = 8;  // independent sums, added in pairs at the end
  double lane[kLanes] = {};
  const size_t whole = x.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    double term[kLanes];
    for (size_t j = 0; j < kLanes; ++j) term[j] = exp_of((x[i + j] - max) / temperature);
    for (size_t j = 0; j < kLanes; ++j) lane[j] += term[j];
  }
  for (size_t i = whole; i < x.size(); ++i) {
    lane[i - whole] += exp_of((x[i] - max) / temperature);
  }
  for (size_t width = kLanes / 2; width >= 1; width /= 2) {
    for (size_t j = 0; j < width; ++j) lane[j] += lane[j + width];
  }
  return lane[0];
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
