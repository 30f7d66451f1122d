#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/tensor/quant.h"
#include "tests/parity/kernels/op_cases.h"

namespace tandem::ops {
namespace {

using op_cases::MatmulCase;
using op_cases::Rig;
using tensor::ConstTensorView;
using tensor::DType;
using tensor::TensorView;

constexpr int64_t kTokens = 64;

class Matmul : public ::testing::TestWithParam<std::string> {};

// What matmul_tree gives for rows [first, first + count) of x.
std::vector<float> product(Rig& rig, const PackedMatrix& w, const LeafLayout& leaves,
                           const std::vector<float>& x, int64_t first, int64_t count) {
  std::vector<float> out(static_cast<size_t>(count * w.rows()), -1.0f);
  rig.backend->matmul_tree(*rig.stream,
                           ConstTensorView::f32(x.data() + first * w.cols(), count, w.cols()), w,
                           leaves, TensorView::f32(out.data(), count, w.rows()));
  return out;
}

std::vector<float> dequantized(const MatmulCase& shape, const std::vector<std::byte>& bytes) {
  std::vector<float> w(static_cast<size_t>(shape.rows * shape.cols));
  tensor::dequantize(shape.dtype, bytes.data(), shape.rows * shape.cols, w.data());
  return w;
}

TEST_P(Matmul, IsTheProductWithTheDequantisedWeights) {
  Rig rig = op_cases::make_rig(GetParam(), 1);
  for (const MatmulCase& shape : op_cases::matmul_cases()) {
    SCOPED_TRACE(shape.name());
    const auto bytes = op_cases::random_weights(shape, 3);
    const RawMatrix raw = op_cases::raw_matrix(shape, bytes);
    const auto w = rig.backend->pack(raw, raw.whole());
    const auto values = dequantized(shape, bytes);
    const auto x = op_cases::random_values(4, 3 * shape.cols);
    const auto out = product(rig, *w, shape.leaves, x, 0, 3);
    for (int64_t t = 0; t < 3; ++t) {
      for (int64_t n = 0; n < shape.rows; ++n) {
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < shape.cols; ++k) {
          const double term = static_cast<double>(x[static_cast<size_t>(t * shape.cols + k)]) *
                              values[static_cast<size_t>(n * shape.cols + k)];
          sum += term;
          magnitude += std::fabs(term);
        }
        ASSERT_NEAR(out[static_cast<size_t>(t * shape.rows + n)], sum, magnitude * 0x1p-24 * 30)
            << t << " " << n;
      }
    }
  }
}

TEST_P(Matmul, RowsHaveTheSameBitsAloneAndInAnyBatchOnAnyThreads) {
  Rig alone = op_cases::make_rig(GetParam(), 1);
  for (const MatmulCase& shape : op_cases::matmul_cases()) {
    if (shape.rows < 33 || shape.cols == 32) continue;  // too small to be split
    SCOPED_TRACE(shape.name());
    const auto bytes = op_cases::random_weights(shape, 3);
    const RawMatrix raw = op_cases::raw_matrix(shape, bytes);
    const auto x = op_cases::random_values(4, kTokens * shape.cols);
    std::vector<float> expected;
    const auto w = alone.backend->pack(raw, raw.whole());
    for (int64_t t = 0; t < kTokens; ++t) {
      const auto row = product(alone, *w, shape.leaves, x, t, 1);
      expected.insert(expected.end(), row.begin(), row.end());
    }
    for (int threads : {1, 2, 3}) {
      Rig rig = op_cases::make_rig(GetParam(), threads);
      const auto packed = rig.backend->pack(raw, raw.whole());
      for (int64_t batch : {1, 2, 3, 4, 5, 7, 16, 64}) {
        const int64_t first = (kTokens - batch) / 2;
        const auto out = product(rig, *packed, shape.leaves, x, first, batch);
        ASSERT_EQ(op_cases::count_different(out.data(), &expected[static_cast<size_t>(first *
                                          shape.rows)], batch * shape.rows), 0)
            << "batch " << batch << " threads " << threads;
      }
    }
  }
}

TEST_P(Matmul, LeavesThenTreeSumHaveTheBitsOfTheFusedForm) {
  Rig rig = op_cases::make_rig(GetParam(), 2);
  for (const MatmulCase& shape : op_cases::matmul_cases()) {
    SCOPED_TRACE(shape.name());
    const auto bytes = op_cases::random_weights(shape, 3);
    const RawMatrix raw = op_cases::raw_matrix(shape, bytes);
    const auto w = rig.backend->pack(raw, raw.whole());
    for (int64_t tokens : {1, 5}) {
      const auto x = op_cases::random_values(4, tokens * shape.cols);
      const auto fused = product(rig, *w, shape.leaves, x, 0, tokens);
      const int num_leaves = shape.leaves.num_leaves;
      std::vector<float> partials(static_cast<size_t>(num_leaves * tokens * shape.rows));
      const auto view = TensorView::f32(partials.data(), num_leaves * tokens, shape.rows);
      rig.backend->matmul_leaves(*rig.stream, ConstTensorView::f32(x.data(), tokens, shape.cols),
                                 *w, shape.leaves, view);
      rig.backend->tree_sum(*rig.stream, view, num_leaves, view.row_range(0, tokens));
      EXPECT_EQ(op_cases::count_different(partials.data(), fused.data(), tokens * shape.rows), 0);
    }
  }
}

// A rank that owns some leaves packs their columns only; its leaf sums are those of one rank.
TEST_P(Matmul, ColumnSlicesGiveTheLeavesOfTheWhole) {
  Rig rig = op_cases::make_rig(GetParam(), 1);
  for (DType dtype : {DType::kQ4_1, DType::kQ8_0, DType::kF16}) {
    const MatmulCase shape{dtype, 40, 192, {3, {0, 64, 96, 192}}};
    const auto bytes = op_cases::random_weights(shape, 3);
    const RawMatrix raw = op_cases::raw_matrix(shape, bytes);
    const auto whole = rig.backend->pack(raw, raw.whole());
    const int64_t tokens = 4;
    const auto x = op_cases::random_values(4, tokens * shape.cols);
    const auto xs = TensorView::f32(const_cast<float*>(x.data()), tokens, shape.cols);
    std::vector<float> partials(static_cast<size_t>(3 * tokens * shape.rows));
    rig.backend->matmul_leaves(*rig.stream, xs, *whole, shape.leaves,
                               TensorView::f32(partials.data(), 3 * tokens, shape.rows));
    for (int leaf = 0; leaf < 3; ++leaf) {
      const MatrixSlice slice{0, shape.rows, shape.leaves.k_begin[leaf],
                              shape.leaves.k_begin[leaf + 1]};
      const auto part = rig.backend->pack(raw, slice);
      std::vector<float> out(static_cast<size_t>(tokens * shape.rows));
      rig.backend->matmul(*rig.stream, xs.columns(slice.col_begin, slice.col_end), *part,
                          TensorView::f32(out.data(), tokens, shape.rows));
      EXPECT_EQ(op_cases::count_different(
                    out.data(), &partials[static_cast<size_t>(leaf * tokens * shape.rows)],
                    tokens * shape.rows), 0)
          << tensor::dtype_name(dtype) << " leaf " << leaf;
    }
  }
}

TEST_P(Matmul, RowSlicesGiveTheRowsOfTheWhole) {
  Rig rig = op_cases::make_rig(GetParam(), 1);
  const MatmulCase shape{DType::kQ4_0, 100, 96, LeafLayout::single(96)};
  const auto bytes = op_cases::random_weights(shape, 3);
  const RawMatrix raw = op_cases::raw_matrix(shape, bytes);
  const auto whole = rig.backend->pack(raw, raw.whole());
  const auto part = rig.backend->pack(raw, {37, 90, 0, 96});
  const auto x = op_cases::random_values(4, 96);
  const auto all = product(rig, *whole, shape.leaves, x, 0, 1);
  const auto some = product(rig, *part, shape.leaves, x, 0, 1);
  EXPECT_EQ(op_cases::count_different(some.data(), &all[37], 53), 0);
}

TEST_P(Matmul, NanInOneRowStaysThere) {
  Rig rig = op_cases::make_rig(GetParam(), 2);
  const MatmulCase shape{DType::kQ4_1, 70, 96, LeafLayout::single(96)};
  const auto bytes = op_cases::random_weights(shape, 3);
  const RawMatrix raw = op_cases::raw_matrix(shape, bytes);
  const auto w = rig.backend->pack(raw, raw.whole());
  auto x = op_cases::random_values(4, 8 * shape.cols);
  const auto clean = product(rig, *w, shape.leaves, x, 0, 8);
  x[static_cast<size_t>(3 * shape.cols)] = std::numeric_limits<float>::quiet_NaN();
  const auto dirty = product(rig, *w, shape.leaves, x, 0, 8);
  for (size_t i = 0; i < clean.size(); ++i) {
    if (i / 70 == 3) {
      ASSERT_TRUE(std::isnan(dirty[i])) << i;
    } else {
      ASSERT_EQ(dirty[i], clean[i]) << i;
    }
  }
}

TEST_P(Matmul, ZeroRowsAreNothing) {
  Rig rig = op_cases::make_rig(GetParam(), 2);
  const MatmulCase shape{DType::kF32, 4, 8, LeafLayout::single(8)};
  const auto bytes = op_cases::random_weights(shape, 3);
  const RawMatrix raw = op_cases::raw_matrix(shape, bytes);
  const auto w = rig.backend->pack(raw, raw.whole());
  EXPECT_TRUE(product(rig, *w, shape.leaves, {}, 0, 0).empty());
}

TEST_P(Matmul, DeathOnShapesThatDontFit) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  Rig rig = op_cases::make_rig(GetParam(), 1);
  const MatmulCase shape{DType::kQ8_0, 4, 64, LeafLayout::single(64)};
  const auto bytes = op_cases::random_weights(shape, 3);
  const RawMatrix raw = op_cases::raw_matrix(shape, bytes);
  const auto w = rig.backend->pack(raw, raw.whole());
  const auto x = op_cases::random_values(4, 64);
  EXPECT_DEATH(product(rig, *w, LeafLayout{2, {0, 40, 64}}, x, 0, 1), "CHECK_KERNEL failed");
  EXPECT_DEATH(product(rig, *w, LeafLayout::single(32), x, 0, 1), "CHECK_KERNEL failed");
  EXPECT_DEATH(rig.backend->pack(raw, {0, 4, 0, 48}), "CHECK_KERNEL failed");
  EXPECT_DEATH(rig.backend->pack(raw, {0, 5, 0, 64}), "CHECK_KERNEL failed");
}

TEST_P(Matmul, TreeAddsInTheCanonicalOrder) {
  Rig rig = op_cases::make_rig(GetParam(), 1);
  // Values whose sum depends on the order.
  const std::vector<float> v = {1e8f, 1.0f, -1e8f, 3.3f, 0.1f, 7e7f, -7e7f, 0.7f};
  const auto sum = [&](int n) {
    float out = 0;
    rig.backend->tree_sum(*rig.stream, ConstTensorView::f32(v.data(), n, 1), n,
                          TensorView::f32(&out, 1, 1));
    return out;
  };
  EXPECT_EQ(sum(1), v[0]);
  EXPECT_EQ(sum(3), (v[0] + v[1]) + v[2]);
  EXPECT_EQ(sum(6), ((v[0] + v[1]) + (v[2] + v[3])) + (v[4] + v[5]));
  EXPECT_EQ(sum(7), ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + v[6]));
  EXPECT_EQ(sum(8), ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])));
}

TEST_P(Matmul, EmbedTakesRowsOfItsRangeAndZerosElsewhere) {
  Rig rig = op_cases::make_rig(GetParam(), 2);
  const MatmulCase shape{DType::kQ4_1, 40, 64, LeafLayout::single(64)};
  const auto bytes = op_cases::random_weights(shape, 3);
  const RawMatrix raw = op_cases::raw_matrix(shape, bytes);
  const auto w = rig.backend->pack(raw, raw.whole());
  const auto values = dequantized(shape, bytes);
  const std::vector<uint32_t> ids = {139, 100, 99, 140, 117};
  std::vector<float> out(ids.size() * 64, -1.0f);
  rig.backend->embed(*rig.stream, {ids.data(), 5, 100}, *w, TensorView::f32(out.data(), 5, 64));
  for (size_t t = 0; t < ids.size(); ++t) {
    for (size_t d = 0; d < 64; ++d) {
      const bool inside = ids[t] >= 100 && ids[t] < 140;
      ASSERT_EQ(out[t * 64 + d], inside ? values[(ids[t] - 100) * 64 + d] : 0.0f) << t;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OpSets, Matmul, ::testing::ValuesIn(op_cases::runnable_op_sets()),
                         [](const auto& op_set) { return op_set.param; });

}  // namespace
}  // namespace tandem::ops
