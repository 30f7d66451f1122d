#include "worker/scheduler/policy.h"

#include <gtest/gtest.h>

#include <deque>

namespace tandem::scheduler {
namespace {

constexpr Config kConfig{.token_budget = 20, .prefill_chunk = 8, .max_sequences = 4,
                         .max_prefill_sequences = 2};

// Owns the ranges that the sequences of a view point to.
class Scene {
 public:
  Sequence& decode(uint64_t key, uint32_t position) {
    return add(key, Kind::kDecode, {{position, position + 1}});
  }
  Sequence& prefill(uint64_t key, std::vector<Range> todo) {
    return add(key, Kind::kPrefill, std::move(todo));
  }
  std::vector<WorkItem> plan(const char* policy = "continuous", Config config = kConfig) {
    const std::vector<Sequence> list(sequences_.begin(), sequences_.end());
    return find_policy(policy)->plan({list}, config).items;
  }

 private:
  Sequence& add(uint64_t key, Kind kind, std::vector<Range> todo) {
    ranges_.push_back(std::move(todo));
    Sequence sequence;
    sequence.key = key;
    sequence.kind = kind;
    sequence.todo = ranges_.back();
    sequences_.push_back(sequence);
    return sequences_.back();
  }
  std::deque<std::vector<Range>> ranges_;
  std::deque<Sequence> sequences_;
};

using Items = std::vector<WorkItem>;

TEST(Policies, AreFoundByName) {
  EXPECT_EQ(policies().front().name, "continuous");
  EXPECT_NE(find_policy("static"), nullptr);
  EXPECT_EQ(find_policy("Continuous"), nullptr);
}

TEST(Continuous, AnEmptyViewGivesAnEmptyPlan) {
  Scene scene;
  EXPECT_TRUE(scene.plan().empty());
}

TEST(Continuous, PutsDecodesBeforePrefillAndSharesTheBudgetOldestFirst) {
  Scene scene;
  scene.prefill(1, {{0, 100}});
  scene.decode(2, 30);
  scene.prefill(3, {{16, 19}});
  scene.prefill(4, {{0, 50}});  // no third prefill slot
  scene.decode(5, 7);
  EXPECT_EQ(scene.plan(), (Items{{2, 30, 31}, {5, 7, 8}, {1, 0, 8}, {3, 16, 19}}));
}

TEST(Continuous, TheBudgetCutsTheLastChunk) {
  Scene scene;
  scene.prefill(1, {{0, 100}});
  scene.prefill(2, {{0, 100}});
  const Config config{.token_budget = 13, .prefill_chunk = 8, .max_sequences = 4,
                      .max_prefill_sequences = 4};
  EXPECT_EQ(scene.plan("continuous", config), (Items{{1, 0, 8}, {2, 0, 5}}));
}

TEST(Continuous, AChunkNeverCrossesARange) {
  Scene scene;
  scene.prefill(1, {{4, 7}, {10, 90}});
  EXPECT_EQ(scene.plan(), (Items{{1, 4, 7}}));
}

TEST(Continuous, PrefillGetsOneChunkEvenWhenDecodesFillTheBudget) {
  Scene scene;
  for (uint64_t key = 1; key <= 4; ++key) scene.decode(key, 9);
  scene.prefill(5, {{0, 100}});
  scene.prefill(6, {{0, 100}});
  const Config config{.token_budget = 3, .prefill_chunk = 8, .max_sequences = 4,
                      .max_prefill_sequences = 2};
  const Items plan = scene.plan("continuous", config);
  ASSERT_EQ(plan.size(), 5u);
  EXPECT_EQ(plan.back(), (WorkItem{5, 0, 8}));  // one chunk in total, not one each
}

TEST(Continuous, WhoWaitedLongestGetsTheRow) {
  Scene scene;
  for (uint64_t key = 1; key <= 6; ++key) scene.decode(key, 9).plans_waited = key >= 5 ? 1 : 0;
  const Items plan = scene.plan();
  ASSERT_EQ(plan.size(), 4u);
  EXPECT_EQ(plan[0].key, 5u);
  EXPECT_EQ(plan[1].key, 6u);
  EXPECT_EQ(plan[2].key, 1u);
}

TEST(Continuous, ASoloSequenceRunsAlone) {
  Scene scene;
  scene.decode(1, 9);
  Sequence& solo = scene.prefill(2, {{0, 100}});
  solo.solo = true;
  EXPECT_EQ(scene.plan(), (Items{{1, 9, 10}}));  // equal: the others first
  solo.plans_waited = 1;
  EXPECT_EQ(scene.plan(), (Items{{2, 0, 8}}));
}

TEST(Continuous, ASoloSequenceAloneRunsAtOnce) {
  Scene scene;
  scene.decode(1, 9).solo = true;
  EXPECT_EQ(scene.plan(), (Items{{1, 9, 10}}));
}

TEST(Static, NobodyJoinsARunningBatch) {
  Scene scene;
  scene.decode(1, 9).started = true;
  scene.prefill(2, {{0, 8}});
  EXPECT_EQ(scene.plan("static"), (Items{{1, 9, 10}}));
}

TEST(Static, ComputesAllPromptsBeforeTheFirstDecode) {
  Scene scene;
  scene.decode(1, 9).started = true;
  scene.prefill(2, {{8, 12}}).started = true;
  EXPECT_EQ(scene.plan("static"), (Items{{2, 8, 12}}));
}

TEST(Static, StartsTheOldestWhenNothingRuns) {
  Scene scene;
  for (uint64_t key = 1; key <= 6; ++key) scene.decode(key, 9);
  const Items plan = scene.plan("static");
  ASSERT_EQ(plan.size(), 4u);
  EXPECT_EQ(plan.back().key, 4u);
}

TEST(PoliciesDeath, RefuseAnEmptyTodo) {
  Scene scene;
  scene.prefill(1, {});
  EXPECT_DEATH(scene.plan(), "CHECK failed");
}

}  // namespace
}  // namespace tandem::scheduler
