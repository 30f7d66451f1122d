#pragma once
// The AVX2 + FMA + F16C op set.

#include "kernels/cpu/kernel_table.h"

namespace tandem::cpu {

// Whether this machine can run avx2_kernels().
bool avx2_supported();

// Requires of callers of its functions: avx2_supported().
const KernelTable& avx2_kernels();

}  // namespace tandem::cpu
