#include "worker/weights/shard_plan.h"

#include <gtest/gtest.h>

namespace tandem::weights {
namespace {

spec::ModelSpec smollm2() {
  spec::ModelSpec spec;
  spec.num_layers = 30;
  spec.hidden = 576;
  spec.num_heads = 9;
  spec.num_kv_heads = 3;
  spec.head_dim = 64;
  spec.ffn = 1536;
  spec.vocab = 49152;
  return spec;
}

ShardPlan plan_of(const spec::ModelSpec& spec, RankPosition position = {}) {
  Result<ShardPlan> plan = make_shard_plan(spec, position);
  EXPECT_TRUE(plan.ok());
  return std::move(plan).value();
}

TEST(Partition, CoversInOrderWithSizesThatDifferByOne) {
  for (int64_t count : {0, 1, 7, 8, 9, 100}) {
    for (int64_t parts = 1; parts <= 9; ++parts) {
      int64_t next = 0;
      for (int64_t i = 0; i < parts; ++i) {
        const Range r = partition(count, parts, i);
        EXPECT_EQ(r.begin, next);
        EXPECT_GE(r.size(), count / parts);
        EXPECT_LE(r.size(), count / parts + 1);
        next = r.end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(ShardPlan, OneRankHoldsEverything) {
  const ShardPlan plan = plan_of(smollm2());
  EXPECT_EQ(plan.layers, (Range{0, 30}));
  EXPECT_EQ(plan.q_heads, (Range{0, 9}));
  EXPECT_EQ(plan.kv_heads, (Range{0, 3}));
  EXPECT_EQ(plan.ffn, (Range{0, 1536}));
  EXPECT_EQ(plan.vocab, (Range{0, 49152}));
  EXPECT_TRUE(plan.first_stage() && plan.last_stage());
}

TEST(ShardPlan, LeavesAreHeadGroupsAndSlabs) {
  const ShardPlan plan = plan_of(smollm2());
  EXPECT_EQ(plan.attention.k_begin, (std::vector<int64_t>{0, 192, 384, 576}));
  EXPECT_EQ(plan.ffn_tree.k_begin,
            (std::vector<int64_t>{0, 192, 384, 576, 768, 960, 1152, 1344, 1536}));
}

TEST(ShardPlan, LeavesStayOnQuantisationBlocks) {
  spec::ModelSpec spec = smollm2();
  spec.num_heads = spec.num_kv_heads = 12;
  spec.head_dim = 24;  // heads of 24 columns: only runs of 4 heads end on blocks of 32
  spec.ffn = 352;      // 11 blocks
  const ShardPlan plan = plan_of(spec);
  EXPECT_EQ(plan.attention.k_begin, (std::vector<int64_t>{0, 96, 192, 288}));
  EXPECT_EQ(plan.ffn_tree.k_begin,
            (std::vector<int64_t>{0, 64, 128, 192, 224, 256, 288, 320, 352}));
}

TEST(ShardPlan, OddWidthsHaveOneLeaf) {
  spec::ModelSpec spec = smollm2();
  spec.num_heads = spec.num_kv_heads = 2;
  spec.head_dim = 10;
  spec.ffn = 33;
  const ShardPlan plan = plan_of(spec);
  EXPECT_EQ(plan.attention.num_leaves(), 1);
  EXPECT_EQ(plan.ffn_tree.num_leaves(), 1);
}

// Any uneven degree: the ranks' parts tile the model, and the leaves never depend on the degree.
TEST(ShardPlan, RanksCoverTheModelOnce) {
  const spec::ModelSpec spec = smollm2();
  const ShardPlan whole = plan_of(spec);
  for (int32_t tp = 1; tp <= 3; ++tp) {
    Range kv_heads, q_heads, ffn, vocab;
    for (int32_t rank = 0; rank < tp; ++rank) {
      const ShardPlan plan = plan_of(spec, {.tp_rank = rank, .tp = tp});
      EXPECT_EQ(plan.attention.k_begin, whole.attention.k_begin);
      EXPECT_EQ(plan.ffn_tree.k_begin, whole.ffn_tree.k_begin);
      EXPECT_EQ(plan.kv_heads.begin, kv_heads.end);
      EXPECT_EQ(plan.q_heads.begin, q_heads.end);
      EXPECT_EQ(plan.ffn.begin, ffn.end);
      EXPECT_EQ(plan.vocab.begin, vocab.end);
      kv_heads = plan.kv_heads;
      q_heads = plan.q_heads;
      ffn = plan.ffn;
      vocab = plan.vocab;
      EXPECT_EQ(plan.attention.columns(rank).size(), plan.q_heads.size() * spec.head_dim);
    }
    EXPECT_EQ(kv_heads.end, 3);
    EXPECT_EQ(q_heads.end, 9);
    EXPECT_EQ(ffn.end, 1536);
    EXPECT_EQ(vocab.end, 49152);
  }
  EXPECT_EQ(plan_of(spec, {.stage = 3, .pp = 4}).layers, (Range{23, 30}));
}

TEST(ShardPlan, RefusesDegreesByNumber) {
  const auto tp = make_shard_plan(smollm2(), {.tp_rank = 0, .tp = 4});
  ASSERT_FALSE(tp.ok());
  EXPECT_EQ(tp.error().field, "tp");
  EXPECT_NE(tp.error().message.find("3"), std::string::npos);
  const auto pp = make_shard_plan(smollm2(), {.stage = 0, .pp = 31});
  ASSERT_FALSE(pp.ok());
  EXPECT_EQ(pp.error().field, "pp");
}

}  // namespace
}  // namespace tandem::weights
