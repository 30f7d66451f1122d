#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/parity/kernels/op_cases.h"

namespace tandem::ops {
namespace {

using op_cases::Rig;
using tensor::ConstTensorView;
using tensor::TensorView;

constexpr int64_t kRows = 64;
constexpr int64_t kWidth = 576;

class RowOps : public ::testing::TestWithParam<std::string> {};

// An op over `count` rows: reads rows of x and y, writes rows of out.
using RowOp = std::function<void(Rig&, const float* x, const float* y, int64_t count, float* out)>;

std::vector<std::pair<const char*, RowOp>> row_ops() {
  static const std::vector<float> weight = op_cases::random_values(3, kWidth);
  const auto in = [](const float* data, int64_t count) {
    return ConstTensorView::f32(data, count, kWidth);
  };
  const auto to = [](float* data, int64_t count) { return TensorView::f32(data, count, kWidth); };
  return {
      {"rms_norm",
       [=](Rig& rig, const float* x, const float*, int64_t count, float* out) {
         rig.backend->rms_norm(*rig.stream, in(x, count), weight.data(), 1e-5f, to(out, count));
       }},
      {"silu_mul",
       [=](Rig& rig, const float* x, const float* y, int64_t count, float* out) {
         rig.backend->silu_mul(*rig.stream, in(x, count), in(y, count), to(out, count));
       }},
      {"add",
       [=](Rig& rig, const float* x, const float* y, int64_t count, float* out) {
         rig.backend->add(*rig.stream, in(x, count), in(y, count), to(out, count));
       }},
  };
}

TEST_P(RowOps, SameBitsAloneAndInAnyBatchOnAnyThreads) {
  const auto x = op_cases::random_values(1, kRows * kWidth);
  const auto y = op_cases::random_values(2, kRows * kWidth);
  for (const auto& [name, op] : row_ops()) {
    Rig alone = op_cases::make_rig(GetParam(), 1);
    std::vector<float> expected(x.size());
    for (int64_t r = 0; r < kRows; ++r) {
      const int64_t at = r * kWidth;
      op(alone, &x[static_cast<size_t>(at)], &y[static_cast<size_t>(at)], 1,
         &expected[static_cast<size_t>(at)]);
    }
    for (int threads : {1, 2, 3}) {
      Rig rig = op_cases::make_rig(GetParam(), threads);
      for (int64_t batch : {2, 3, 7, 16, 64}) {
        std::vector<float> out(static_cast<size_t>(batch * kWidth));
        op(rig, x.data(), y.data(), batch, out.data());
        EXPECT_EQ(op_cases::count_different(out.data(), expected.data(), batch * kWidth), 0)
            << name << " batch " << batch << " threads " << threads;
      }
    }
  }
}

TEST_P(RowOps, InPlaceHasTheSameBits) {
  const auto x = op_cases::random_values(1, 4 * kWidth);
  const auto y = op_cases::random_values(2, 4 * kWidth);
  Rig rig = op_cases::make_rig(GetParam(), 1);
  for (const auto& [name, op] : row_ops()) {
    std::vector<float> expected(x.size()), in_place = x;
    op(rig, x.data(), y.data(), 4, expected.data());
    op(rig, in_place.data(), y.data(), 4, in_place.data());
    EXPECT_EQ(op_cases::count_different(in_place.data(), expected.data(), 4 * kWidth), 0) << name;
  }
}

TEST_P(RowOps, TinyValuesDontDependOnTheThread) {
  // Sums of denormals: flushed on the caller and on helpers alike.
  Rig one = op_cases::make_rig(GetParam(), 1);
  Rig three = op_cases::make_rig(GetParam(), 3);
  const std::vector<float> x(static_cast<size_t>(kRows * kWidth), 1e-39f);
  std::vector<float> a(x.size()), b(x.size());
  const auto xs = ConstTensorView::f32(x.data(), kRows, kWidth);
  one.backend->add(*one.stream, xs, xs, TensorView::f32(a.data(), kRows, kWidth));
  three.backend->add(*three.stream, xs, xs, TensorView::f32(b.data(), kRows, kWidth));
  EXPECT_EQ(op_cases::count_different(a.data(), b.data(), kRows * kWidth), 0);
  EXPECT_EQ(a[0], 0.0f);
}

TEST_P(RowOps, RmsNormFollowsItsFormula) {
  Rig rig = op_cases::make_rig(GetParam(), 1);
  const auto x = op_cases::random_values(1, kWidth, 5);
  const auto weight = op_cases::random_values(2, kWidth);
  std::vector<float> out(x.size());
  rig.backend->rms_norm(*rig.stream, ConstTensorView::f32(x.data(), 1, kWidth), weight.data(),
                        1e-5f, TensorView::f32(out.data(), 1, kWidth));
  double sum = 0;
  for (float value : x) sum += static_cast<double>(value) * value;
  const double inverse = 1 / std::sqrt(sum / kWidth + 1e-5);
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = x[i] * inverse * weight[i];
    EXPECT_NEAR(out[i], expected, 1e-6 * std::fabs(expected) + 1e-12) << i;
  }
}

TEST_P(RowOps, SiluMulFollowsItsFormulaAtTheEnds) {
  Rig rig = op_cases::make_rig(GetParam(), 1);
  const std::vector<float> gate = {0, 1, -1, 20, -20, 90, -90, 1e30f, -1e30f};
  const std::vector<float> up(gate.size(), 2.0f);
  std::vector<float> out(gate.size());
  const auto n = static_cast<int64_t>(gate.size());
  rig.backend->silu_mul(*rig.stream, ConstTensorView::f32(gate.data(), 1, n),
                        ConstTensorView::f32(up.data(), 1, n), TensorView::f32(out.data(), 1, n));
  for (size_t i = 0; i < gate.size(); ++i) {
    const double expected = 2.0 * gate[i] / (1 + std::exp(-static_cast<double>(gate[i])));
    EXPECT_NEAR(out[i], expected, 1e-6 * std::fabs(expected) + 1e-30) << gate[i];
  }
}

TEST_P(RowOps, RopeRotatesNeighbouringPairsByPosition) {
  Rig rig = op_cases::make_rig(GetParam(), 2);
  const int64_t head_dim = 8, pairs = 3, positions = 10;  // the last pair is left alone
  std::vector<float> cos, sin;
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<double>(p) * std::pow(10.0, -static_cast<double>(i));
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  RaggedBatchPlan plan({.max_tokens = 4, .max_sequences = 2, .max_table_entries = 2});
  plan.clear();
  const uint32_t block = 0;
  plan.add_sequence(7, 3, {&block, 1});
  plan.add_sequence(0, 1, {&block, 1});
  const auto x = op_cases::random_values(1, 4 * 2 * head_dim);
  std::vector<float> out = x;
  rig.backend->rope(*rig.stream, TensorView::f32(out.data(), 4, 2 * head_dim), head_dim,
                    plan.view(), {cos.data(), sin.data(), positions, 2 * pairs});
  const int64_t position[] = {7, 8, 9, 0};
  for (int64_t t = 0; t < 4; ++t) {
    for (int64_t head = 0; head < 2; ++head) {
      const auto at = static_cast<size_t>((t * 2 + head) * head_dim);
      for (int64_t i = 0; i < pairs; ++i) {
        const auto a = at + static_cast<size_t>(2 * i);
        const auto angle = static_cast<size_t>(position[t] * pairs + i);
        EXPECT_FLOAT_EQ(out[a], x[a] * cos[angle] - x[a + 1] * sin[angle]);
        EXPECT_FLOAT_EQ(out[a + 1], x[a] * sin[angle] + x[a + 1] * cos[angle]);
      }
      EXPECT_EQ(out[at + 6], x[at + 6]);
      EXPECT_EQ(out[at + 7], x[at + 7]);
    }
  }
}

TEST_P(RowOps, GatherRowsTakesRowsInTheGivenOrder) {
  Rig rig = op_cases::make_rig(GetParam(), 1);
  const auto x = op_cases::random_values(1, 5 * 3);
  const std::vector<uint32_t> rows = {4, 0, 4};
  std::vector<float> out(9);
  rig.backend->gather_rows(*rig.stream, ConstTensorView::f32(x.data(), 5, 3), rows.data(),
                           TensorView::f32(out.data(), 3, 3));
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(out[i], x[rows[i / 3] * 3 + i % 3]);
}

TEST_P(RowOps, UploadAndDownloadCopy) {
  Rig rig = op_cases::make_rig(GetParam(), 1);
  tensor::Buffer device = rig.backend->allocate(64);
  const auto in = op_cases::random_values(1, 16);
  std::vector<float> out(16);
  rig.backend->upload(*rig.stream, in.data(), device.data(), 64);
  rig.backend->download(*rig.stream, device.data(), out.data(), 64);
  rig.stream->synchronize();
  EXPECT_EQ(in, out);
}

INSTANTIATE_TEST_SUITE_P(OpSets, RowOps, ::testing::ValuesIn(op_cases::runnable_op_sets()),
                         [](const auto& op_set) { return op_set.param; });

}  // namespace
}  // namespace tandem::ops
