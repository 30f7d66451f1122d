#include "worker/forward/step_plan.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "kernels/backends/cpu_backend.h"

namespace tandem::forward {
namespace {

class StepPlanTest : public ::testing::Test {
 protected:
  std::unique_ptr<ops::Backend> backend_ = backends::make_cpu_backend("reference", 1);
  std::unique_ptr<tensor::Stream> stream_ = backend_->make_stream();
  StepPlan plan_{{.max_tokens = 8,
                  .max_sequences = 3,
                  .max_logit_rows = 4,
                  .max_context = 64,
                  .block_size = 16,
                  .num_blocks = 10,
                  .vocab = 100},
                 *backend_};
  const std::array<int32_t, 8> tokens_{10, 11, 12, 13, 14, 15, 16, 17};
  const std::array<uint32_t, 4> blocks_{7, 3, 9, 0};

  StepEntry entry(size_t count, int32_t start) const {
    return {.tokens = std::span(tokens_).first(count),
            .start_position = start,
            .block_table = blocks_};
  }
};

TEST_F(StepPlanTest, LaysOutRowsAndLogitRows) {
  std::vector<StepEntry> batch{entry(3, 15), entry(1, 40), entry(2, 0)};
  batch[1].sample = true;
  batch[2].return_logits = ReturnLogits::kAll;
  plan_.plan(batch);
  plan_.upload(*stream_);
  EXPECT_EQ(plan_.num_tokens(), 6);
  ASSERT_EQ(plan_.num_logit_rows(), 3);
  const uint32_t* rows = plan_.logit_rows();
  EXPECT_EQ(std::vector<uint32_t>(rows, rows + 3), (std::vector<uint32_t>{3, 4, 5}));
  const ops::TokenRows ids = plan_.tokens(5);
  EXPECT_EQ(ids.first_id, 5U);
  EXPECT_EQ(std::vector<uint32_t>(ids.ids, ids.ids + 6),
            (std::vector<uint32_t>{10, 11, 12, 10, 10, 11}));
  const ops::RaggedBatch ragged = plan_.batch();
  EXPECT_EQ(ragged.num_sequences, 3U);
  EXPECT_EQ(ragged.max_context, 41U);
  EXPECT_EQ(std::vector<uint32_t>(ragged.positions, ragged.positions + 6),
            (std::vector<uint32_t>{15, 16, 17, 40, 0, 1}));
  EXPECT_EQ(ragged.table_begin[1], 2U);  // only the blocks that the context reaches
}

using StepPlanDeathTest = StepPlanTest;

TEST_F(StepPlanDeathTest, ViolatedLimitsAreProgrammingErrors) {
  const auto expect_death = [this](std::vector<StepEntry> batch) {
    EXPECT_DEATH(plan_.plan(batch), "CHECK failed");
  };
  expect_death({entry(0, 0)});                          // no tokens
  expect_death({entry(8, 0), entry(1, 0)});             // too many rows
  expect_death({entry(8, 60)});                         // beyond the context
  expect_death(std::vector<StepEntry>(4, entry(1, 0)));  // too many sequences
  StepEntry all_logits = entry(5, 0);
  all_logits.return_logits = ReturnLogits::kAll;
  expect_death({all_logits});
  StepEntry short_table = entry(2, 15);
  short_table.block_table = std::span(blocks_).first(1);
  expect_death({short_table});
  const std::array<uint32_t, 1> no_such_block{10};
  StepEntry bad_block = entry(1, 0);
  bad_block.block_table = no_such_block;
  expect_death({bad_block});
  const std::array<int32_t, 1> no_such_token{100};
  StepEntry bad_token = entry(1, 0);
  bad_token.tokens = no_such_token;
  expect_death({bad_token});
}

}  // namespace
}  // namespace tandem::forward
