#include "worker/scheduler/continuous.h"

#include "worker/scheduler/plan_builder.h"

namespace tandem::scheduler {

Plan plan_continuous(const View& view, const Config& config) {
  check_input(view, config);
  PlanBuilder builder(config);
  if (const Sequence* alone = due_solo(view)) {
    builder.add(*alone);
    return builder.take();
  }
  builder.add_decodes(select(view, Kind::kDecode));
  builder.add_prefills(select(view, Kind::kPrefill));
  return builder.take();
}

}  // namespace tandem::scheduler
