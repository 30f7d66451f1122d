#include "tests/parity/kernels/op_cases.h"

#include <bit>
#include <cmath>

#include "kernels/backends/cpu_backend.h"
#include "kernels/tensor/device_error.h"
#include "kernels/tensor/quant.h"

namespace tandem::op_cases {

using tensor::DType;

namespace {

// SplitMix64, mapped to the unit interval.
class Uniform {
 public:
  explicit Uniform(uint64_t seed) : state_(seed) {}
  double next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return static_cast<double>((z ^ z >> 31) >> 11) * 0x1p-53;
  }

 private:
  uint64_t state_;
};

ops::LeafLayout even_leaves(int num_leaves, int64_t cols, int64_t unit) {
  ops::LeafLayout leaves;
  leaves.num_leaves = num_leaves;
  for (int i = 0; i <= num_leaves; ++i) leaves.k_begin[i] = cols / unit * i / num_leaves * unit;
  return leaves;
}

}  // namespace

Rig make_rig(const std::string& name, int threads) {
  Rig rig;
  rig.backend = backends::make_cpu_backend(name, threads);
  rig.stream = rig.backend->make_stream();
  return rig;
}

std::vector<std::string> runnable_op_sets() {
  std::vector<std::string> names = {"reference"};
  for (const char* name : {"avx2", "avx512"}) {
    try {
      backends::make_cpu_backend(name, 1);
      names.push_back(name);
    } catch (const tensor::UnsupportedError&) {
      // Not on this machine or not in this build.
    }
  }
  return names;
}

std::vector<float> random_values(uint32_t seed, int64_t n, float deviation) {
  Uniform uniform(seed);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) {
    double sum = 0;  // of 12 uniforms: near enough to normal, and portable
    for (int i = 0; i < 12; ++i) sum += uniform.next();
    value = static_cast<float>(sum - 6) * deviation;
  }
  return values;
}

std::string MatmulCase::name() const {
  return std::string(tensor::dtype_name(dtype)) + " N=" + std::to_string(rows) +
         " K=" + std::to_string(cols) + " leaves=" + std::to_string(leaves.num_leaves);
}

std::vector<MatmulCase> matmul_cases() {
  std::vector<MatmulCase> cases;
  for (int d = 0; d < tensor::kNumDTypes; ++d) {
    const DType dtype = static_cast<DType>(d);
    const int64_t unit = tensor::dtype_block_elements(dtype);
    for (int64_t rows : {1, 16, 31, 32, 33, 100}) {
      for (int64_t cols : {32, 96, 576}) {
        for (int leaves : {1, 3}) {
          cases.push_back({dtype, rows, cols, even_leaves(leaves, cols, unit > 1 ? unit : 8)});
          if (cols / 32 < 3) break;
        }
      }
    }
    cases.push_back({dtype, 64, 1536, even_leaves(8, 1536, 32)});
    if (unit == 1) {
      cases.push_back({dtype, 5, 7, even_leaves(1, 7, 1)});
      cases.push_back({dtype, 40, 45, even_leaves(4, 45, 1)});
    }
  }
  return cases;
}

std::vector<std::byte> random_weights(const MatmulCase& shape, uint32_t seed) {
  const int64_t n = shape.rows * shape.cols;
  const std::vector<float> values = random_values(seed, n, 0.1f);
  std::vector<std::byte> bytes(static_cast<size_t>(tensor::dtype_bytes(shape.dtype, n)));
  tensor::quantize(shape.dtype, values.data(), n, bytes.data());
  return bytes;
}

ops::RawMatrix raw_matrix(const MatmulCase& shape, const std::vector<std::byte>& bytes) {
  return {shape.dtype, bytes, shape.rows, shape.cols};
}

int64_t count_different(const float* a, const float* b, int64_t n) {
  int64_t different = 0;
  for (int64_t i = 0; i < n; ++i) {
    different += std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]);
  }
  return different;
}

}  // namespace tandem::op_cases
