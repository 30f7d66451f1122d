// Every op set against the reference.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/parity/kernels/op_cases.h"

namespace tandem::op_cases {
namespace {

using tensor::ConstTensorView;
using tensor::TensorView;

// Bound on |difference| for a sum of K products of magnitude |x w|: both sides round each of K
// steps at most to 2^-24 of the running sum of magnitudes.
float tolerance(const float* x, const std::vector<float>& w, int64_t cols) {
  double magnitude = 0;
  for (int64_t k = 0; k < cols; ++k) magnitude += std::fabs(x[k] * w[static_cast<size_t>(k)]);
  return static_cast<float>(magnitude * 0x1p-24 * 40 + 1e-30);
}

TEST(MatmulParity, AgreesWithReference) {
  for (const std::string& name : runnable_op_sets()) {
    Rig reference = make_rig("reference", 1);
    Rig tested = make_rig(name, 2);
    for (const MatmulCase& shape : matmul_cases()) {
      SCOPED_TRACE(name + " " + shape.name());
      const auto bytes = random_weights(shape, 7);
      const ops::RawMatrix raw = raw_matrix(shape, bytes);
      const auto expected_w = reference.backend->pack(raw, raw.whole());
      const auto w = tested.backend->pack(raw, raw.whole());
      const int64_t tokens = 7;
      const auto x = random_values(11, tokens * shape.cols);
      std::vector<float> expected(static_cast<size_t>(tokens * shape.rows));
      std::vector<float> actual = expected;
      const auto xs = ConstTensorView::f32(x.data(), tokens, shape.cols);
      reference.backend->matmul_tree(*reference.stream, xs, *expected_w, shape.leaves,
                                     TensorView::f32(expected.data(), tokens, shape.rows));
      tested.backend->matmul_tree(*tested.stream, xs, *w, shape.leaves,
                                  TensorView::f32(actual.data(), tokens, shape.rows));
      std::vector<float> row(static_cast<size_t>(shape.cols));
      for (int64_t n = 0; n < shape.rows; ++n) {
        const auto id = static_cast<uint32_t>(n);
        reference.backend->embed(*reference.stream, {&id, 1, 0}, *expected_w,
                                 TensorView::f32(row.data(), 1, shape.cols));
        for (int64_t t = 0; t < tokens; ++t) {
          const auto at = static_cast<size_t>(t * shape.rows + n);
          ASSERT_NEAR(actual[at], expected[at], tolerance(&x[static_cast<size_t>(t * shape.cols)],
                                                          row, shape.cols))
              << "token " << t << " row " << n;
        }
      }
    }
  }
}

TEST(EmbedParity, SameBitsAsReference) {
  for (const std::string& name : runnable_op_sets()) {
    Rig reference = make_rig("reference", 1);
    Rig tested = make_rig(name, 2);
    for (const MatmulCase& shape : matmul_cases()) {
      SCOPED_TRACE(name + " " + shape.name());
      const auto bytes = random_weights(shape, 5);
      const ops::RawMatrix raw = raw_matrix(shape, bytes);
      const auto expected_w = reference.backend->pack(raw, raw.whole());
      const auto w = tested.backend->pack(raw, raw.whole());
      std::vector<uint32_t> ids;
      for (int64_t n = 0; n < shape.rows; ++n) ids.push_back(static_cast<uint32_t>(n));
      std::vector<float> expected(static_cast<size_t>(shape.rows * shape.cols));
      std::vector<float> actual = expected;
      reference.backend->embed(*reference.stream, {ids.data(), shape.rows, 0}, *expected_w,
                               TensorView::f32(expected.data(), shape.rows, shape.cols));
      tested.backend->embed(*tested.stream, {ids.data(), shape.rows, 0}, *w,
                            TensorView::f32(actual.data(), shape.rows, shape.cols));
      EXPECT_EQ(count_different(expected.data(), actual.data(), shape.rows * shape.cols), 0);
    }
  }
}

}  // namespace
}  // namespace tandem::op_cases
