// Every policy over random work until all of it is done: the rules of policy.h after each plan,
// bounded waiting, and every position computed exactly once.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "comm/runtime/rng.h"
#include "worker/scheduler/policy.h"

namespace tandem::scheduler {
namespace {

struct Work {
  uint64_t key = 0;
  std::vector<Range> todo;
  uint32_t tokens_left = 0;  // to decode
  uint32_t position = 0;     // of the next decode
  bool solo = false;
  bool started = false;
  uint32_t plans_waited = 0;
  bool prefill() const { return !todo.empty() && tokens_left > 0 && position == 0; }
};

class World {
 public:
  World(const Policy& policy, uint64_t seed) : policy_(policy), rng_(seed) {
    config_ = {.token_budget = pick(1, 40), .prefill_chunk = pick(1, 16),
               .max_sequences = pick(1, 6), .max_prefill_sequences = pick(1, 3)};
  }

  void run() {
    uint32_t to_come = 30;
    for (uint32_t step = 0; to_come > 0 || !work_.empty(); ++step) {
      ASSERT_LT(step, 20'000u) << "work never ends";
      if (to_come > 0 && rng_.below(3) == 0) {
        arrive();
        --to_come;
      }
      one_step();
      if (testing::Test::HasFatalFailure()) return;
    }
  }

 private:
  uint32_t pick(uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>(rng_.below(high - low + 1));
  }

  void arrive() {
    Work work;
    work.key = next_key_++;
    uint32_t at = pick(0, 5);
    for (uint32_t i = pick(1, 3); i > 0; --i) {
      const uint32_t end = at + pick(1, 30);
      work.todo.push_back({at, end});
      at = end + pick(1, 10);
    }
    work.tokens_left = pick(1, 20);
    work.solo = rng_.below(8) == 0;
    work_.push_back(work);
  }

  void one_step() {
    std::vector<std::vector<Range>> todos;
    for (const Work& work : work_) {
      todos.push_back(work.prefill() ? work.todo
                                     : std::vector<Range>{{work.position, work.position + 1}});
    }
    std::vector<Sequence> list;
    for (size_t i = 0; i < work_.size(); ++i) {
      const Work& work = work_[i];
      list.push_back({work.key, work.prefill() ? Kind::kPrefill : Kind::kDecode, todos[i],
                      work.solo, work.started, work.plans_waited});
    }
    const Plan plan = policy_.plan({list}, config_);
    ASSERT_EQ(plan.items, policy_.plan({list}, config_).items) << "not deterministic";
    ASSERT_EQ(plan.items.empty(), work_.empty());
    check_plan(plan, list);
    apply(plan);
  }

  void check_plan(const Plan& plan, const std::vector<Sequence>& list) {
    std::set<uint64_t> keys;
    uint32_t decodes = 0, prefills = 0, tokens = 0, prefill_tokens = 0;
    bool any_solo = false;
    for (const WorkItem& item : plan.items) {
      const auto at = std::ranges::find(list, item.key, &Sequence::key);
      ASSERT_TRUE(at != list.end());
      ASSERT_TRUE(keys.insert(item.key).second) << "twice in one plan";
      ASSERT_EQ(item.begin, at->todo.front().begin);
      ASSERT_LT(item.begin, item.end);
      ASSERT_LE(item.end, at->todo.front().end);
      ASSERT_LE(item.end - item.begin, config_.prefill_chunk);
      tokens += item.end - item.begin;
      any_solo |= at->solo;
      if (at->kind == Kind::kPrefill) {
        ++prefills;
        prefill_tokens += item.end - item.begin;
      } else {
        ++decodes;
        ASSERT_EQ(prefills, 0u) << "decodes come first";
      }
    }
    ASSERT_EQ(tokens, plan.num_tokens);
    if (any_solo) {
      ASSERT_EQ(plan.items.size(), 1u);
      return;
    }
    ASSERT_LE(decodes, config_.max_sequences);
    ASSERT_LE(prefills, config_.max_prefill_sequences);
    ASSERT_LE(tokens, std::max(config_.token_budget, decodes + config_.prefill_chunk));
    if (policy_.name != "continuous") return;
    for (const Sequence& sequence : list) {  // free slot and waiting => joined
      if (sequence.solo || keys.contains(sequence.key)) continue;
      if (sequence.kind == Kind::kDecode) {
        ASSERT_EQ(decodes, config_.max_sequences);
      } else {
        ASSERT_TRUE(prefills == config_.max_prefill_sequences ||
                    (tokens >= config_.token_budget && prefill_tokens >= config_.prefill_chunk));
      }
    }
  }

  void apply(const Plan& plan) {
    for (Work& work : work_) {
      const auto item = std::ranges::find(plan.items, work.key, &WorkItem::key);
      if (item == plan.items.end()) {
        ++work.plans_waited;
        // Generous: the rules are about "not for ever".
        ASSERT_LT(work.plans_waited, 5'000u) << "starved";
        continue;
      }
      work.plans_waited = 0;
      work.started = true;
      if (work.prefill()) {
        work.todo.front().begin = item->end;
        if (work.todo.front().begin == work.todo.front().end) work.todo.erase(work.todo.begin());
        if (work.todo.empty()) work.position = item->end;
      } else {
        ++work.position;
        --work.tokens_left;
      }
    }
    std::erase_if(work_, [](const Work& work) { return work.tokens_left == 0; });
  }

  const Policy& policy_;
  SplitMix64 rng_;
  Config config_;
  std::vector<Work> work_;
  uint64_t next_key_ = 1;
};

TEST(PolicyProperties, HoldOverRandomWork) {
  for (const Policy& policy : policies()) {
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      SCOPED_TRACE(std::string(policy.name) + " seed " + std::to_string(seed));
      World(policy, seed).run();
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace tandem::scheduler
