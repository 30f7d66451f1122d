#include "kernels/ops/ragged_batch.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem::ops {
namespace {

constexpr RaggedBatchPlan::Limits kLimits{.max_tokens = 8, .max_sequences = 3,
                                          .max_table_entries = 6};

TEST(RaggedBatchPlan, DescribesAMixedStep) {
  RaggedBatchPlan plan(kLimits);
  plan.clear();
  const std::vector<uint32_t> first = {5, 6}, second = {9};
  plan.add_sequence(30, 4, first);
  plan.add_sequence(7, 1, second);
  const RaggedBatch batch = plan.view();
  EXPECT_EQ(batch.num_tokens, 5u);
  EXPECT_EQ(batch.num_sequences, 2u);
  EXPECT_EQ(batch.max_rows, 4u);
  EXPECT_EQ(batch.max_context, 34u);
  EXPECT_EQ(std::vector(batch.row_begin, batch.row_begin + 3), (std::vector<uint32_t>{0, 4, 5}));
  EXPECT_EQ(std::vector(batch.first_position, batch.first_position + 2),
            (std::vector<uint32_t>{30, 7}));
  EXPECT_EQ(std::vector(batch.table_begin, batch.table_begin + 3),
            (std::vector<uint32_t>{0, 2, 3}));
  EXPECT_EQ(std::vector(batch.block_table, batch.block_table + 3),
            (std::vector<uint32_t>{5, 6, 9}));
  EXPECT_EQ(std::vector(batch.positions, batch.positions + 5),
            (std::vector<uint32_t>{30, 31, 32, 33, 7}));
  EXPECT_EQ(std::vector(batch.sequence_of_row, batch.sequence_of_row + 5),
            (std::vector<uint32_t>{0, 0, 0, 0, 1}));
}

TEST(RaggedBatchPlan, KeepsAddressesFromStepToStepAndInACopy) {
  RaggedBatchPlan plan(kLimits);
  plan.clear();
  const std::vector<uint32_t> blocks = {1, 2, 3};
  plan.add_sequence(0, 8, blocks);
  const uint32_t* positions = plan.view().positions;
  plan.clear();
  EXPECT_EQ(plan.view().num_tokens, 0u);
  plan.add_sequence(4, 1, blocks);
  EXPECT_EQ(plan.view().positions, positions);
  const std::vector<uint32_t> copy(plan.arena().begin(), plan.arena().end());
  const RaggedBatch moved = plan.view_at(copy.data());
  EXPECT_EQ(moved.positions[0], 4u);
  EXPECT_EQ(moved.block_table[2], 3u);
  EXPECT_EQ(moved.positions - copy.data(), positions - plan.arena().data());
}

TEST(RaggedBatchPlanDeathTest, RefusesMoreThanItsLimits) {
  RaggedBatchPlan plan(kLimits);
  plan.clear();
  const std::vector<uint32_t> blocks(7, 0);
  EXPECT_DEATH(plan.add_sequence(0, 9, {}), "CHECK_KERNEL failed");
  EXPECT_DEATH(plan.add_sequence(0, 0, {}), "CHECK_KERNEL failed");
  EXPECT_DEATH(plan.add_sequence(0, 1, blocks), "CHECK_KERNEL failed");
}

}  // namespace
}  // namespace tandem::ops
