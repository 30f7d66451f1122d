#include "cli/supervisor/fence_watch.h"

namespace tandem::supervisor {

std::vector<InstanceView> FenceWatch::observe(const std::vector<InstanceView>& views,
                                              const std::map<std::string, int64_t>& launchers,
                                              TimePoint now) {
  std::vector<InstanceView> overdue;
  for (const InstanceView& view : views) {
    const auto launcher = launchers.find(view.name);
    const bool is_current =
        launcher != launchers.end() && launcher->second == view.launcher_pid;
    if (view.state != "dead" || !is_current) {
      dead_.erase(view.name);
      continue;
    }
    const auto [entry, is_new] = dead_.try_emplace(view.name, Dead{view.launcher_pid, now});
    if (!is_new && entry->second.launcher_pid != view.launcher_pid) {
      entry->second = {view.launcher_pid, now};
    }
    if (now - entry->second.since >= patience_) overdue.push_back(view);
  }
  return overdue;
}

}  // namespace tandem::supervisor
