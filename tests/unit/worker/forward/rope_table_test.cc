#include "worker/forward/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/tiny_model.h"

namespace tandem::forward {
namespace {

TEST(RopeTable, FollowsTheFormula) {
  spec::ModelSpec spec = support::tiny_spec();
  spec.rope.base = 100000.0;
  const RopeTableData table = make_rope_table(spec, 300);
  const int64_t pairs = spec.head_dim / 2;
  ASSERT_EQ(table.cos.size(), static_cast<size_t>(300 * pairs));
  for (int64_t position : {0, 1, 299}) {
    for (int64_t i = 0; i < pairs; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / spec.head_dim;
      const double angle = static_cast<double>(position) * std::pow(100000.0, exponent);
      const auto at = static_cast<size_t>(position * pairs + i);
      EXPECT_NEAR(table.cos[at], std::cos(angle), 1e-7);
      EXPECT_NEAR(table.sin[at], std::sin(angle), 1e-7);
    }
  }
}

TEST(RopeTable, LinearScalingStretchesPositions) {
  spec::ModelSpec spec = support::tiny_spec();
  const RopeTableData plain = make_rope_table(spec, 10);
  spec.rope.scaling = spec::RopeScaling::kLinear;
  spec.rope.factor = 4.0;
  const RopeTableData stretched = make_rope_table(spec, 40);
  const auto pairs = static_cast<size_t>(spec.head_dim / 2);
  for (size_t i = 0; i < pairs; ++i) {
    EXPECT_NEAR(stretched.sin[8 * pairs + i], plain.sin[2 * pairs + i], 1e-6);
  }
}

TEST(RopeTable, HashSeesTheBase) {
  spec::ModelSpec spec = support::tiny_spec();
  const std::string hash = rope_table_hash(spec);
  EXPECT_EQ(hash.size(), 16U);
  EXPECT_EQ(rope_table_hash(spec), hash);
  spec.rope.base *= 2;
  EXPECT_NE(rope_table_hash(spec), hash);
}

}  // namespace
}  // namespace tandem::forward
