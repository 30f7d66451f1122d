#pragma once
// The scalar kernels; contracts in kernels/cpu/kernel_table.h and kernels/ops/backend.h.

#include <cstdint>

#include "kernels/cpu/kernel_table.h"

namespace tandem::cpu::reference {

inline constexpr int64_t kPanelRows = 16;

// e^x, correctly rounded but for rare last-bit cases. Own code: libm's bits differ by processor.
float exp_f32(float x);

// Sum of a[i] * b[i] in 16 interleaved partial sums that are then added pairwise.
float dot(const float* a, const float* b, int64_t n);

int64_t packed_bytes(tensor::DType dtype, int64_t rows, int64_t cols);
void pack_panel(const PackTask& task, int64_t panel);
void unpack_row(const PackTask& task, int64_t row, float* out);
int64_t matmul_scratch_floats(int64_t cols);
void matmul_panel(const MatmulTask& task);

void rms_norm(const float* x, const float* weight, int64_t n, float eps, float* out);
void silu_mul(const float* gate, const float* up, int64_t n, float* out);

int64_t attention_scratch_floats();
void attention(const AttentionTask& task);

}  // namespace tandem::cpu::reference
