#pragma once
// Host memory for the CPU backend.

#include <cstdint>

#include "kernels/tensor/buffer.h"

namespace tandem::cpu {

// Zeroed, 64-byte aligned and already backed by pages; from 2 MiB on aligned for huge pages.
// Throws DeviceError, naming the size, if the machine has no room. Thread-safe.
tensor::Buffer allocate_host(int64_t size_bytes);

}  // namespace tandem::cpu
