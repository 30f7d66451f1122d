#include "worker/scheduler/static.h"

#include <algorithm>

#include "worker/scheduler/plan_builder.h"

namespace tandem::scheduler {
namespace {

// The running batch, or, when none runs, the next one: the oldest that aren't solo.
std::vector<Sequence> batch_of(const View& view, const Config& config) {
  const auto& all = view.sequences;
  const auto running = [](const Sequence& s) { return s.started && !s.solo; };
  const bool runs = std::ranges::any_of(all, running);
  std::vector<Sequence> batch;
  for (const Sequence& sequence : all) {
    if (batch.size() == config.max_sequences) break;
    if (!sequence.solo && (!runs || sequence.started)) batch.push_back(sequence);
  }
  return batch;
}

}  // namespace

Plan plan_static(const View& view, const Config& config) {
  check_input(view, config);
  PlanBuilder builder(config);
  if (const Sequence* alone = due_solo(view)) {
    builder.add(*alone);
    return builder.take();
  }
  const std::vector<Sequence> batch = batch_of(view, config);
  const View members{batch};
  const auto prompts = select(members, Kind::kPrefill);
  if (prompts.empty()) {
    builder.add_decodes(select(members, Kind::kDecode));
  } else {
    builder.add_prefills(prompts);
  }
  return builder.take();
}

}  // namespace tandem::scheduler
