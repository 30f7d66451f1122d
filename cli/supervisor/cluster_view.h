#pragma once
// What /admin/cluster says, as far as the supervisor needs it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/runtime/result.h"

namespace tandem::supervisor {

struct InstanceView {
  std::string name;
  std::string state;      // starting, ready, suspect, draining, dead
  int64_t pid = 0;        // rank 0 itself; 0 = not known
  int64_t launcher_pid = 0;  // its mpirun
};

// kCorrupt when the text is not the documented object.
Result<std::vector<InstanceView>> parse_cluster(std::string_view json);

}  // namespace tandem::supervisor
