#include "kernels/cpu/reference/reference.h"

#include "kernels/cpu/reference/kernels.h"

namespace tandem::cpu {

const KernelTable& reference_kernels() {
  static constexpr KernelTable kTable = {
      .name = "reference",
      .panel_rows = reference::kPanelRows,
      .packed_bytes = reference::packed_bytes,
      .pack_panel = reference::pack_panel,
      .unpack_row = reference::unpack_row,
      .matmul_scratch_floats = reference::matmul_scratch_floats,
      .matmul_panel = reference::matmul_panel,
      .rms_norm = reference::rms_norm,
      .silu_mul = reference::silu_mul,
      .attention_scratch_floats = reference::attention_scratch_floats,
      .attention = reference::attention,
  };
  return kTable;
}

}  // namespace tandem::cpu
