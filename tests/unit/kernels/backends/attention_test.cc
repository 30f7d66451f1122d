#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/tensor/quant.h"
#include "tests/parity/kernels/attention_rig.h"

namespace tandem::ops {
namespace {

using op_cases::AttentionCase;
using op_cases::AttentionRig;
using op_cases::SequenceInput;
using tensor::DType;

class Attention : public ::testing::TestWithParam<std::string> {};

struct LongCase {
  AttentionCase shape;
  int64_t length;
};

// Every shape over some tiles; a small one also past the first split at position 512.
std::vector<LongCase> long_cases() {
  std::vector<LongCase> cases;
  for (const AttentionCase& shape : op_cases::attention_cases()) cases.push_back({shape, 150});
  cases.push_back({{1, 2, 20, 32, DType::kBF16}, 540});
  return cases;
}

float as_stored(float value, DType dtype) {
  return dtype == DType::kF32 ? value : tensor::f32_from_bf16(tensor::bf16_from_f32(value));
}

// Softmax attention of one (row, head) in double, over K and V as stored.
std::vector<double> by_definition(const AttentionCase& c, const SequenceInput& in, int64_t row,
                                  int64_t head) {
  const int64_t kv_head = head / c.group;
  const double scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
  std::vector<double> score;
  double peak = -INFINITY;
  for (int64_t p = 0; p <= row; ++p) {
    double dot = 0;
    for (int64_t d = 0; d < c.head_dim; ++d) {
      const auto k = static_cast<size_t>(p * c.kv_cols() + kv_head * c.head_dim + d);
      const auto q = static_cast<size_t>(row * c.q_cols() + head * c.head_dim + d);
      dot += static_cast<double>(in.q[q]) * as_stored(in.k[k], c.dtype);
    }
    score.push_back(dot * scale);
    peak = std::max(peak, score.back());
  }
  double sum = 0;
  std::vector<double> out(static_cast<size_t>(c.head_dim));
  for (int64_t p = 0; p <= row; ++p) {
    const double weight = std::exp(score[static_cast<size_t>(p)] - peak);
    sum += weight;
    for (int64_t d = 0; d < c.head_dim; ++d) {
      const auto v = static_cast<size_t>(p * c.kv_cols() + kv_head * c.head_dim + d);
      out[static_cast<size_t>(d)] += weight * as_stored(in.v[v], c.dtype);
    }
  }
  for (double& value : out) value /= sum;
  return out;
}

TEST_P(Attention, IsSoftmaxAttentionOverTheStoredContext) {
  for (const auto& [shape, length] : long_cases()) {
    SCOPED_TRACE(shape.name());
    const SequenceInput in = op_cases::random_sequence(shape, length, 5);
    AttentionRig rig(GetParam(), 1, shape, {in});
    rig.run(length);
    for (int64_t row : {0, 1, 15, 16, 63, 64, 130, 511, 512, 539}) {
      if (row >= length) continue;
      for (int64_t head = 0; head < shape.num_kv_heads * shape.group; ++head) {
        const auto expected = by_definition(shape, in, row, head);
        for (int64_t d = 0; d < shape.head_dim; ++d) {
          const auto at = static_cast<size_t>(row * shape.q_cols() + head * shape.head_dim + d);
          ASSERT_NEAR(rig.out(0)[at], expected[static_cast<size_t>(d)], 3e-6)
              << "row " << row << " head " << head << " d " << d;
        }
      }
    }
  }
}

// The pool holds NaN wherever nothing was appended, so these also show that nothing else is read.
TEST_P(Attention, SameBitsInAnyChunksBatchesAndThreads) {
  for (const auto& [shape, length] : long_cases()) {
    SCOPED_TRACE(shape.name());
    const SequenceInput in = op_cases::random_sequence(shape, length, 5);
    AttentionRig whole(GetParam(), 1, shape, {in});
    whole.run(length);
    const std::vector<float>& expected = whole.out(0);
    for (int64_t chunk : {16, 63, 512}) {
      const SequenceInput other = op_cases::random_sequence(shape, 70, 9);
      const SequenceInput third = op_cases::random_sequence(shape, 130, 10);
      const int threads = chunk == 16 ? 2 : chunk == 63 ? 3 : 1;
      AttentionRig rig(GetParam(), threads, shape, {other, in, third});
      rig.run(chunk);
      ASSERT_EQ(op_cases::count_different(rig.out(1).data(), expected.data(),
                                        static_cast<int64_t>(expected.size())), 0)
          << "chunk " << chunk;
    }
  }
}

TEST_P(Attention, DecodedRowsHaveTheBitsOfPrefilledOnes) {
  for (const auto& [shape, length] : long_cases()) {
    SCOPED_TRACE(shape.name());
    const SequenceInput in = op_cases::random_sequence(shape, length, 5);
    AttentionRig whole(GetParam(), 1, shape, {in});
    whole.run(length);
    AttentionRig decode(GetParam(), 1, shape, {in});
    decode.step({length - 40});
    for (int i = 0; i < 40; ++i) decode.step({1});
    ASSERT_EQ(op_cases::count_different(decode.out(0).data(), whole.out(0).data(),
                                      static_cast<int64_t>(whole.out(0).size())), 0);
  }
}

TEST_P(Attention, BitsDontDependOnTheBlockSize) {
  AttentionCase shape{2, 3, 64, 16, DType::kBF16};
  const SequenceInput in = op_cases::random_sequence(shape, 200, 5);
  AttentionRig first(GetParam(), 1, shape, {in});
  first.run(200);
  for (int64_t block_size : {32, 64}) {
    shape.block_size = block_size;
    AttentionRig rig(GetParam(), 1, shape, {in});
    rig.run(200);
    EXPECT_EQ(op_cases::count_different(rig.out(0).data(), first.out(0).data(),
                                      static_cast<int64_t>(first.out(0).size())), 0);
  }
}

TEST_P(Attention, NanReachesLaterRowsOfItsSequenceOnly) {
  const AttentionCase shape{1, 3, 64, 16, DType::kF32};
  for (bool in_key : {true, false}) {
    const SequenceInput other = op_cases::random_sequence(shape, 90, 6);
    SequenceInput in = op_cases::random_sequence(shape, 90, 5);
    AttentionRig clean(GetParam(), 1, shape, {in, other});
    clean.run(90);
    auto& poisoned = in_key ? in.k : in.v;
    poisoned[static_cast<size_t>(70 * shape.kv_cols())] = std::numeric_limits<float>::quiet_NaN();
    AttentionRig dirty(GetParam(), 2, shape, {in, other});
    dirty.run(90);
    EXPECT_EQ(op_cases::count_different(dirty.out(1).data(), clean.out(1).data(),
                                      90 * shape.q_cols()), 0);
    EXPECT_EQ(op_cases::count_different(dirty.out(0).data(), clean.out(0).data(),
                                      70 * shape.q_cols()), 0);
    for (int64_t row = 70; row < 90; ++row) {
      EXPECT_TRUE(std::isnan(dirty.out(0)[static_cast<size_t>(row * shape.q_cols())])) << row;
    }
  }
}

TEST_P(Attention, AKeyBitReachesTheOutput) {
  const AttentionCase shape{1, 3, 64, 16, DType::kF32};
  SequenceInput in = op_cases::random_sequence(shape, 90, 5);
  AttentionRig before(GetParam(), 1, shape, {in});
  before.run(90);
  in.k[10] = -in.k[10];
  AttentionRig after(GetParam(), 1, shape, {in});
  after.run(90);
  EXPECT_GT(op_cases::count_different(after.out(0).data(), before.out(0).data(),
                                    static_cast<int64_t>(before.out(0).size())), 0);
}

TEST_P(Attention, AppendStoresRoundedRowsWhereTheLayoutSays) {
  const AttentionCase shape{2, 1, 8, 16, DType::kBF16};
  const SequenceInput in = op_cases::random_sequence(shape, 20, 5);
  AttentionRig rig(GetParam(), 1, shape, {in}, -7.0f);
  rig.run(20);
  const KvLayerView kv = rig.kv_view();
  const auto stored = [&](int64_t block, int kind, int64_t head, int64_t slot, int64_t d) {
    const auto* tile = static_cast<const uint16_t*>(kv.tile(block, kind, head));
    return tensor::f32_from_bf16(tile[slot * 8 + d]);
  };
  for (int64_t p = 0; p < 20; ++p) {
    for (int64_t head = 0; head < 2; ++head) {
      for (int64_t d = 0; d < 8; ++d) {
        const auto at = static_cast<size_t>(p * 16 + head * 8 + d);
        // The sequence owns blocks 1 and 2.
        ASSERT_EQ(stored(1 + p / 16, PagedKvLayout::kKey, head, p % 16, d),
                  as_stored(in.k[at], DType::kBF16));
        ASSERT_EQ(stored(1 + p / 16, PagedKvLayout::kValue, head, p % 16, d),
                  as_stored(in.v[at], DType::kBF16));
      }
    }
  }
  EXPECT_EQ(stored(2, PagedKvLayout::kKey, 1, 4, 0), -7.0f);   // slot 20: untouched
  EXPECT_EQ(stored(0, PagedKvLayout::kValue, 0, 0, 0), -7.0f);  // another block: untouched
}

INSTANTIATE_TEST_SUITE_P(OpSets, Attention, ::testing::ValuesIn(op_cases::runnable_op_sets()),
                         [](const auto& op_set) { return op_set.param; });

}  // namespace
}  // namespace tandem::ops
