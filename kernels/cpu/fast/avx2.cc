#include "kernels/cpu/fast/avx2.h"

#include "kernels/cpu/fast/kernels.h"

namespace tandem::cpu {

bool avx2_supported() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

const KernelTable& avx2_kernels() {
  static constexpr KernelTable kTable = {
      .name = "avx2",
      .panel_rows = fast::kPanelRows,
      .packed_bytes = fast::packed_bytes,
      .pack_panel = fast::pack_panel,
      .unpack_row = fast::unpack_row,
      .matmul_scratch_floats = fast::matmul_scratch_floats,
      .matmul_panel = fast::matmul_panel,
      .rms_norm = fast::rms_norm,
      .silu_mul = fast::silu_mul,
      .attention_scratch_floats = fast::attention_scratch_floats,
      .attention = fast::attention,
  };
  return kTable;
}

}  // namespace tandem::cpu
