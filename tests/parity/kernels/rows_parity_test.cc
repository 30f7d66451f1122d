#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/parity/kernels/op_cases.h"

namespace tandem::op_cases {
namespace {

using tensor::ConstTensorView;
using tensor::TensorView;

const int64_t kWidths[] = {1, 5, 8, 31, 32, 100, 576};

TEST(RmsNormParity, AgreesWithReference) {
  for (const std::string& name : runnable_op_sets()) {
    Rig reference = make_rig("reference", 1);
    Rig tested = make_rig(name, 2);
    for (int64_t n : kWidths) {
      SCOPED_TRACE(name + " n=" + std::to_string(n));
      const int64_t rows = 9;
      const auto x = random_values(1, rows * n, 3);
      const auto weight = random_values(2, n);
      std::vector<float> expected(x.size()), actual(x.size());
      const auto xs = ConstTensorView::f32(x.data(), rows, n);
      reference.backend->rms_norm(*reference.stream, xs, weight.data(), 1e-5f,
                                  TensorView::f32(expected.data(), rows, n));
      tested.backend->rms_norm(*tested.stream, xs, weight.data(), 1e-5f,
                               TensorView::f32(actual.data(), rows, n));
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_NEAR(actual[i], expected[i], 2e-6f * std::fabs(expected[i]) + 1e-30f) << i;
      }
    }
  }
}

TEST(SiluMulParity, AgreesWithReferenceOverTheWholeRange) {
  for (const std::string& name : runnable_op_sets()) {
    Rig reference = make_rig("reference", 1);
    Rig tested = make_rig(name, 2);
    std::vector<float> gate;
    for (float g = -120; g <= 120; g += 0.0625f) gate.push_back(g);
    const std::vector<float> up(gate.size(), 1.5f);
    std::vector<float> expected(gate.size()), actual(gate.size());
    const auto n = static_cast<int64_t>(gate.size());
    const auto gates = ConstTensorView::f32(gate.data(), 1, n);
    const auto ups = ConstTensorView::f32(up.data(), 1, n);
    reference.backend->silu_mul(*reference.stream, gates, ups,
                                TensorView::f32(expected.data(), 1, n));
    tested.backend->silu_mul(*tested.stream, gates, ups, TensorView::f32(actual.data(), 1, n));
    for (size_t i = 0; i < gate.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], 1e-6f * std::fabs(expected[i]) + 1e-35f)
          << name << " at " << gate[i];
    }
  }
}

TEST(SiluMulParity, KeepsNanInItsPlace) {
  for (const std::string& name : runnable_op_sets()) {
    Rig tested = make_rig(name, 1);
    std::vector<float> gate(20, 1.0f), up(20, 1.0f), out(20);
    gate[3] = std::numeric_limits<float>::quiet_NaN();
    tested.backend->silu_mul(*tested.stream, ConstTensorView::f32(gate.data(), 1, 20),
                             ConstTensorView::f32(up.data(), 1, 20),
                             TensorView::f32(out.data(), 1, 20));
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out[i]), i == 3) << name << i;
  }
}

}  // namespace
}  // namespace tandem::op_cases
