#pragma once
// What the policies share: whose turn a solo sequence is, and the limits of a plan.

#include <utility>
#include <vector>

#include "worker/scheduler/view.h"

namespace tandem::scheduler {

// CHECKs what View and Config promise.
void check_input(const View& view, const Config& config);

// The solo sequence that gets this plan, or nullptr when the others do. A solo sequence is due
// when it has waited longer than whoever of the others ran last; so it never runs twice in a row
// while others wait, and runs right after a plan of the others.
const Sequence* due_solo(const View& view);

// The sequences of one kind that aren't solo, in order of arrival.
std::vector<const Sequence*> select(const View& view, Kind kind);

class PlanBuilder {
 public:
  explicit PlanBuilder(const Config& config) : config_(config) {}

  // One chunk or one decode, whatever the budget.
  void add(const Sequence& sequence);
  // Up to max_sequences rows, those that waited longest if there are more.
  void add_decodes(std::vector<const Sequence*> decodes);
  // One chunk each, oldest first, up to max_prefill_sequences and the rest of the budget, but not
  // less than one chunk in total.
  void add_prefills(const std::vector<const Sequence*>& prompts);

  Plan take() { return std::move(plan_); }

 private:
  void add_positions(const Sequence& sequence, uint32_t max_tokens);

  const Config& config_;
  Plan plan_;
};

}  // namespace tandem::scheduler
