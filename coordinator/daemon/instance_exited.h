#pragma once
// POST /admin/instance_exited {"name": "decode-0", "pid": 123}: whoever started an instance saw its
// process end, so nobody needs to wait for its silence.

#include <cstdint>
#include <string>
#include <string_view>

#include "comm/runtime/result.h"

namespace tandem::coordinator {

struct InstanceExited {
  std::string name;
  uint32_t pid = 0;  // of rank 0
};

// kInvalidArgument, naming what is wrong, for anything but an object with exactly these keys.
Result<InstanceExited> parse_instance_exited(std::string_view body);

}  // namespace tandem::coordinator
