#pragma once
// The AVX2 kernels and the weight layout they read; contracts in kernels/cpu/kernel_table.h.
// Included by files with instruction-set flags: declarations and constants only.
//
// Packed weights: panels of 32 output rows, missing rows zero. Lanes are output rows, so a sum over
// K needs no horizontal addition, and one token and many tokens add in the same order. Per panel:
//   f32        [K][32]
//   f16, bf16  [K][32]
//   q8_0       [K/32] of { fp16 scale[32]; word[8][32] }: word w of a row holds its codes of
//              k = 4w .. 4w+3, one byte each, lowest first
//   q4_0       [K/32] of { fp16 scale[32]; word[4][32] }: word w of a row holds its codes of
//              k = 8w .. 8w+7, four bits each, lowest first, as two's complement of code - 8
//   q4_1       [K/32] of { fp16 scale[32]; fp16 minimum[32]; word[4][32] }: codes unsigned

#include <cstdint>

#include "kernels/cpu/kernel_table.h"

namespace tandem::cpu::fast {

inline constexpr int kPanelRows = 32;
inline constexpr int kBlock = 32;               // K steps per quantised block
inline constexpr int kScaleBytes = 2 * kPanelRows;
inline constexpr int kQ8BlockBytes = kScaleBytes + 8 * 4 * kPanelRows;
inline constexpr int kQ40BlockBytes = kScaleBytes + 4 * 4 * kPanelRows;
inline constexpr int kQ41BlockBytes = 2 * kScaleBytes + 4 * 4 * kPanelRows;

// Bytes of `cols` K steps of one panel; for quantised types cols is a multiple of kBlock.
int64_t panel_bytes(tensor::DType dtype, int64_t cols);

// Baseline instructions.
int64_t packed_bytes(tensor::DType dtype, int64_t rows, int64_t cols);
void pack_panel(const PackTask& task, int64_t panel);
void unpack_row(const PackTask& task, int64_t row, float* out);
int64_t matmul_scratch_floats(int64_t cols);
int64_t attention_scratch_floats();

// AVX2.
void matmul_panel(const MatmulTask& task);
void rms_norm(const float* x, const float* weight, int64_t n, float eps, float* out);
void silu_mul(const float* gate, const float* up, int64_t n, float* out);
void attention(const AttentionTask& task);

// Scratch of matmul_panel: one half panel dequantised, and one tile of tokens by leaf.
inline constexpr int kHalfRows = kPanelRows / 2;
inline constexpr int kTileTokens = 6;  // 6 tokens x 2 vectors: 12 of 16 registers accumulate
inline constexpr int64_t kTileFloats = 8 * kTileTokens * kHalfRows;

// Scratch of attention: K transposed [dim][tile], V [tile][dim], and per query two running
// softmaxes {weighted[kMaxHeadDim], peak, sum, padding}.
inline constexpr int64_t kStateFloats = kMaxHeadDim + 8;
inline constexpr int64_t kAttentionFloats =
    2 * kMaxHeadDim * kAttentionTile + 2 * kMaxTaskQueries * kStateFloats;

}  // namespace tandem::cpu::fast
