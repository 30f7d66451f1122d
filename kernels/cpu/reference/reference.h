#pragma once
// The scalar op set: short, readable, the yardstick for every other one.

#include "kernels/cpu/kernel_table.h"

namespace tandem::cpu {

// Runs on every machine. Weights stay as the model file stores them.
const KernelTable& reference_kernels();

}  // namespace tandem::cpu
