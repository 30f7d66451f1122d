#pragma once
// The measured loops, one file per instruction set. No inline code: see kernels/cpu.

#include <cstdint>

namespace tandem::bench {

// 2 * lanes operations per FMA, kFmaChains independent chains, `rounds` times each. The result
// only keeps the loop alive. Requires: the CPU has AVX2 and FMA, or AVX-512F.
float fma_loop_avx2(int64_t rounds);
float fma_loop_avx512(int64_t rounds);
// Floating-point operations of one call.
int64_t fma_loop_avx2_flops(int64_t rounds);
int64_t fma_loop_avx512_flops(int64_t rounds);

// Reads every byte once. data: 64-byte aligned, size_bytes a multiple of 512.
int64_t read_loop_avx2(const void* data, int64_t size_bytes);

}  // namespace tandem::bench
