#pragma once
// Finds instances that are fenced but whose process lives on (stopped, hung): nobody else ends
// them (pure).

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/supervisor/cluster_view.h"
#include "comm/runtime/clock.h"

namespace tandem::supervisor {

// A value type, fed with every view of the cluster.
class FenceWatch {
 public:
  explicit FenceWatch(Duration patience) : patience_(patience) {}

  // launchers: pid of the launcher running now for each instance. Returns the views of instances
  // that have been dead for `patience` under this very launcher: an entry that speaks of an
  // earlier process says nothing about the one that is just starting.
  std::vector<InstanceView> observe(const std::vector<InstanceView>& views,
                                    const std::map<std::string, int64_t>& launchers,
                                    TimePoint now);

 private:
  struct Dead {
    int64_t launcher_pid;
    TimePoint since;
  };
  Duration patience_;
  std::map<std::string, Dead> dead_;
};

}  // namespace tandem::supervisor
