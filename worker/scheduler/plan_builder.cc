#include "worker/scheduler/plan_builder.h"

#include <algorithm>
#include <utility>

#include "comm/runtime/check.h"

namespace tandem::scheduler {

void check_input(const View& view, const Config& config) {
  CHECK_GT(config.token_budget, 0u);
  CHECK_GT(config.prefill_chunk, 0u);
  CHECK_GT(config.max_sequences, 0u);
  CHECK_GT(config.max_prefill_sequences, 0u);
  for (const Sequence& sequence : view.sequences) {
    CHECK(!sequence.todo.empty());
    uint32_t end_before = 0;
    for (const Range& range : sequence.todo) {
      CHECK_LT(range.begin, range.end);
      CHECK_GE(range.begin, end_before);
      end_before = range.end;
    }
  }
}

const Sequence* due_solo(const View& view) {
  const Sequence* solo = nullptr;
  const Sequence* last_run = nullptr;  // of the others
  for (const Sequence& sequence : view.sequences) {
    if (sequence.solo) {
      if (!solo || sequence.plans_waited > solo->plans_waited) solo = &sequence;
    } else if (!last_run || sequence.plans_waited < last_run->plans_waited) {
      last_run = &sequence;
    }
  }
  if (!solo || !last_run) return solo;
  return solo->plans_waited > last_run->plans_waited ? solo : nullptr;
}

std::vector<const Sequence*> select(const View& view, Kind kind) {
  std::vector<const Sequence*> chosen;
  for (const Sequence& sequence : view.sequences) {
    if (sequence.kind == kind && !sequence.solo) chosen.push_back(&sequence);
  }
  return chosen;
}

void PlanBuilder::add_positions(const Sequence& sequence, uint32_t max_tokens) {
  const Range& first = sequence.todo.front();
  const uint32_t wanted = sequence.kind == Kind::kDecode ? 1 : first.end - first.begin;
  const uint32_t num_tokens = std::min({wanted, config_.prefill_chunk, max_tokens});
  CHECK_GT(num_tokens, 0u);
  plan_.items.push_back({sequence.key, first.begin, first.begin + num_tokens});
  plan_.num_tokens += num_tokens;
}

void PlanBuilder::add(const Sequence& sequence) {
  add_positions(sequence, config_.prefill_chunk);
}

void PlanBuilder::add_decodes(std::vector<const Sequence*> decodes) {
  if (decodes.size() > config_.max_sequences) {
    std::ranges::stable_sort(decodes, [](const Sequence* a, const Sequence* b) {
      return a->plans_waited > b->plans_waited;
    });
    decodes.resize(config_.max_sequences);
  }
  for (const Sequence* sequence : decodes) add_positions(*sequence, 1);
}

void PlanBuilder::add_prefills(const std::vector<const Sequence*>& prompts) {
  const uint32_t used = std::min(plan_.num_tokens, config_.token_budget);
  uint32_t budget = std::max(config_.token_budget - used, config_.prefill_chunk);
  uint32_t num_added = 0;
  for (const Sequence* prompt : prompts) {
    if (budget == 0 || num_added == config_.max_prefill_sequences) return;
    add_positions(*prompt, budget);
    const WorkItem& item = plan_.items.back();
    budget -= item.end - item.begin;
    ++num_added;
  }
}

}  // namespace tandem::scheduler
