#pragma once
// Which processor a buffer or a stream belongs to.

#include <cstdint>

namespace tandem::tensor {

enum class DeviceKind : uint8_t { kCpu, kCuda };

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int32_t index = 0;  // ordinal on this host; 0 for the CPU

  friend bool operator==(const Device&, const Device&) = default;
};

}  // namespace tandem::tensor
