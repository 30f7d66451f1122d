// Packs GGUF rows into the panels of kernels.h and reads single rows back. Baseline instructions.
#include <cstring>

#include "kernels/cpu/fast/kernels.h"
#include "kernels/tensor/check.h"
#include "kernels/tensor/quant.h"

namespace tandem::cpu::fast {

using tensor::DType;

namespace {

template <class T>
T load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void store(uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// Code i (0..31) of a 4-bit GGUF block.
uint32_t nibble(const uint8_t* code, int i) {
  return i < 16 ? code[i] & 15u : static_cast<uint32_t>(code[i - 16] >> 4);
}

// Writes row `lane` of one quantised block.
void pack_block(DType dtype, const uint8_t* raw, int lane, uint8_t* block) {
  store(block + 2 * lane, load<uint16_t>(raw));  // every format starts with the scale
  if (dtype == DType::kQ8_0) {
    const auto source = load<tensor::BlockQ8_0>(raw);
    for (int i = 0; i < kBlock; ++i) {
      const int word = (i / 4) * kPanelRows + lane;
      block[kScaleBytes + 4 * word + i % 4] = static_cast<uint8_t>(source.code[i]);
    }
    return;
  }
  const bool has_minimum = dtype == DType::kQ4_1;
  if (has_minimum) store(block + kScaleBytes + 2 * lane, load<uint16_t>(raw + 2));
  const uint8_t* code = raw + (has_minimum ? 4 : 2);
  uint8_t* words = block + (has_minimum ? 2 : 1) * kScaleBytes;
  for (int w = 0; w < 4; ++w) {
    uint32_t word = 0;
    for (int j = 0; j < 8; ++j) {
      // In Q4_0, code - 8 as four-bit two's complement is the code with its top bit flipped.
      const uint32_t value = nibble(code, 8 * w + j) ^ (has_minimum ? 0u : 8u);
      word |= value << (4 * j);
    }
    store(words + 4 * (w * kPanelRows + lane), word);
  }
}

// Reads row `lane` of one quantised block; the inverse of pack_block followed by dequantisation.
void unpack_block(DType dtype, const uint8_t* block, int lane, float* out) {
  const float scale = tensor::f32_from_f16(load<uint16_t>(block + 2 * lane));
  if (dtype == DType::kQ8_0) {
    for (int i = 0; i < kBlock; ++i) {
      const int word = (i / 4) * kPanelRows + lane;
      const auto code = static_cast<int8_t>(block[kScaleBytes + 4 * word + i % 4]);
      out[i] = scale * static_cast<float>(code);
    }
    return;
  }
  const bool has_minimum = dtype == DType::kQ4_1;
  const float minimum =
      has_minimum ? tensor::f32_from_f16(load<uint16_t>(block + kScaleBytes + 2 * lane)) : 0.0f;
  const uint8_t* words = block + (has_minimum ? 2 : 1) * kScaleBytes;
  for (int i = 0; i < kBlock; ++i) {
    const uint32_t word = load<uint32_t>(words + 4 * ((i / 8) * kPanelRows + lane));
    const int code = static_cast<int>(word >> (4 * (i % 8)) & 15u);
    out[i] = has_minimum ? scale * static_cast<float>(code) + minimum
                         : scale * static_cast<float>((code ^ 8) - 8);
  }
}

}  // namespace

int64_t panel_bytes(DType dtype, int64_t cols) {
  switch (dtype) {
    case DType::kF32: return cols * 4 * kPanelRows;
    case DType::kF16:
    case DType::kBF16: return cols * 2 * kPanelRows;
    case DType::kQ8_0: return cols / kBlock * kQ8BlockBytes;
    case DType::kQ4_0: return cols / kBlock * kQ40BlockBytes;
    case DType::kQ4_1: return cols / kBlock * kQ41BlockBytes;
  }
  CHECK_KERNEL(!"known dtype");
  return 0;
}

int64_t packed_bytes(DType dtype, int64_t rows, int64_t cols) {
  return (rows + kPanelRows - 1) / kPanelRows * panel_bytes(dtype, cols);
}

void pack_panel(const PackTask& task, int64_t panel) {
  uint8_t* base = task.packed + panel * panel_bytes(task.dtype, task.cols);
  const int64_t width = tensor::dtype_block_elements(task.dtype);
  const int64_t raw_bytes = tensor::dtype_block_bytes(task.dtype);
  const int64_t step = panel_bytes(task.dtype, width);  // packed bytes per block of the panel
  for (int lane = 0; lane < kPanelRows; ++lane) {
    const int64_t row = panel * kPanelRows + lane;
    if (row >= task.rows) return;  // the buffer came zeroed
    const uint8_t* raw = task.raw + row * task.raw_row_bytes;
    for (int64_t b = 0; b < task.cols / width; ++b) {
      if (width == 1) {
        std::memcpy(base + b * step + lane * raw_bytes, raw + b * raw_bytes,
                    static_cast<size_t>(raw_bytes));
      } else {
        pack_block(task.dtype, raw + b * raw_bytes, lane, base + b * step);
      }
    }
  }
}

void unpack_row(const PackTask& task, int64_t row, float* out) {
  const uint8_t* base = task.packed + row / kPanelRows * panel_bytes(task.dtype, task.cols);
  const int lane = static_cast<int>(row % kPanelRows);
  const int64_t width = tensor::dtype_block_elements(task.dtype);
  const int64_t raw_bytes = tensor::dtype_block_bytes(task.dtype);
  const int64_t step = panel_bytes(task.dtype, width);
  for (int64_t b = 0; b < task.cols / width; ++b) {
    if (width == 1) {
      tensor::dequantize(task.dtype, base + b * step + lane * raw_bytes, 1, out + b);
    } else {
      unpack_block(task.dtype, base + b * step, lane, out + b * width);
    }
  }
}

int64_t matmul_scratch_floats(int64_t cols) { return cols * kHalfRows + kTileFloats; }
int64_t attention_scratch_floats() { return kAttentionFloats; }

}  // namespace tandem::cpu::fast
