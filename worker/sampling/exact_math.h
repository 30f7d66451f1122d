#pragma once
// Our own exponential and logarithm. The C library picks its versions by processor, so its last
// bits differ between machines; these are plain double arithmetic and give the same bits anywhere.

#include <span>

namespace tandem::sampling {

// Sum of e^((x - max) / temperature) over x, each term as exact_exp gives it, added in an order
// that only depends on the number of terms. Requires: every x <= max.
double sum_exact_exp(std::span<const float> x, double max, double temperature);

// e^x, relative error below 4e-16. 0 below -708 (no subnormals). Requires: x <= 709.
double exact_exp(double x);

// ln x, relative error below 1e-15. Requires: x is positive, normal and finite.
double exact_log(double x);

}  // namespace tandem::sampling
