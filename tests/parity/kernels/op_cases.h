#pragma once
// Inputs and shapes that every backend is tested and timed on.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/ops/backend.h"

namespace tandem::op_cases {

// A backend with its stream.
struct Rig {
  std::unique_ptr<ops::Backend> backend;
  std::unique_ptr<tensor::Stream> stream;
};

// Requires: this machine can run `name`.
Rig make_rig(const std::string& name, int threads);

// Op sets this machine can run; the reference is the first.
std::vector<std::string> runnable_op_sets();

// n normally distributed values; the same for the same seed on every machine.
std::vector<float> random_values(uint32_t seed, int64_t n, float deviation = 1);

// One product x · wᵀ.
struct MatmulCase {
  tensor::DType dtype;
  int64_t rows;  // N
  int64_t cols;  // K
  ops::LeafLayout leaves;

  std::string name() const;
};

// All dtypes; N around panel sizes; K short, odd (plain types), long; one to eight leaves.
std::vector<MatmulCase> matmul_cases();

// Stored weights of a case, as a model file holds them.
std::vector<std::byte> random_weights(const MatmulCase& shape, uint32_t seed);

ops::RawMatrix raw_matrix(const MatmulCase& shape, const std::vector<std::byte>& bytes);

// Number of elements whose bits differ.
int64_t count_different(const float* a, const float* b, int64_t n);

}  // namespace tandem::op_cases
