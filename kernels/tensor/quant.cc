#include "kernels/tensor/quant.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/tensor/check.h"

namespace tandem::tensor {
namespace {

template <class T>
T load(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

int clamp_code(float value, int low, int high) {
  const int code = static_cast<int>(std::lrint(value));
  return code < low ? low : code > high ? high : code;
}

void quantize_q8_0(const float* in, uint8_t* out) {
  float peak = 0;
  for (int i = 0; i < 32; ++i) peak = std::fmax(peak, std::fabs(in[i]));
  BlockQ8_0 block;
  block.scale = f16_from_f32(peak / 127);
  const float scale = f32_from_f16(block.scale);
  const float inverse = scale > 0 ? 1 / scale : 0;
  for (int i = 0; i < 32; ++i) {
    block.code[i] = static_cast<int8_t>(clamp_code(in[i] * inverse, -127, 127));
  }
  std::memcpy(out, &block, sizeof block);
}

void quantize_q4_0(const float* in, uint8_t* out) {
  float extreme = 0;
  for (int i = 0; i < 32; ++i) {
    if (std::fabs(in[i]) > std::fabs(extreme)) extreme = in[i];
  }
  BlockQ4_0 block{};
  block.scale = f16_from_f32(extreme / -8);
  const float scale = f32_from_f16(block.scale);
  const float inverse = scale != 0 ? 1 / scale : 0;
  for (int i = 0; i < 32; ++i) {
    const int code = clamp_code(in[i] * inverse + 8, 0, 15);
    block.code[i % 16] = static_cast<uint8_t>(block.code[i % 16] | code << (i < 16 ? 0 : 4));
  }
  std::memcpy(out, &block, sizeof block);
}

void quantize_q4_1(const float* in, uint8_t* out) {
  float low = in[0], high = in[0];
  for (int i = 1; i < 32; ++i) {
    low = std::fmin(low, in[i]);
    high = std::fmax(high, in[i]);
  }
  BlockQ4_1 block{};
  block.scale = f16_from_f32((high - low) / 15);
  block.minimum = f16_from_f32(low);
  const float scale = f32_from_f16(block.scale);
  const float minimum = f32_from_f16(block.minimum);
  const float inverse = scale > 0 ? 1 / scale : 0;
  for (int i = 0; i < 32; ++i) {
    const int code = clamp_code((in[i] - minimum) * inverse, 0, 15);
    block.code[i % 16] = static_cast<uint8_t>(block.code[i % 16] | code << (i < 16 ? 0 : 4));
  }
  std::memcpy(out, &block, sizeof block);
}

void dequantize_block(const BlockQ8_0& block, float* out) {
  const float scale = f32_from_f16(block.scale);
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(block.code[i]);
}

void dequantize_block(const BlockQ4_0& block, float* out) {
  const float scale = f32_from_f16(block.scale);
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>((block.code[i] & 15) - 8);
    out[i + 16] = scale * static_cast<float>((block.code[i] >> 4) - 8);
  }
}

void dequantize_block(const BlockQ4_1& block, float* out) {
  const float scale = f32_from_f16(block.scale);
  const float minimum = f32_from_f16(block.minimum);
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(block.code[i] & 15) + minimum;
    out[i + 16] = scale * static_cast<float>(block.code[i] >> 4) + minimum;
  }
}

template <class Block>
void dequantize_blocks(const uint8_t* bytes, int64_t elements, float* out) {
  for (int64_t i = 0; i < elements; i += kQuantBlock, bytes += sizeof(Block)) {
    dequantize_block(load<Block>(bytes), out + i);
  }
}

}  // namespace

float f32_from_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = bits >> 10 & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) {
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  }
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // zero or subnormal: exact
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

uint16_t f16_from_f32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to inf
  if (magnitude < 0x38800000u) {  // below the smallest normal: units of 2^-24
    const float units = std::bit_cast<float>(magnitude) * 0x1p24f;
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::lrint(units)));
  }
  const uint32_t odd = magnitude >> 13 & 1;
  const uint32_t rounded = magnitude + 0xfffu + odd - (112u << 23);
  return static_cast<uint16_t>(sign | rounded >> 13);
}

float f32_from_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t bf16_from_f32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

void dequantize(DType dtype, const void* in, int64_t elements, float* out) {
  CHECK_KERNEL(elements % dtype_block_elements(dtype) == 0);
  const uint8_t* bytes = static_cast<const uint8_t*>(in);
  switch (dtype) {
    case DType::kF32:
      if (elements > 0) std::memcpy(out, in, static_cast<size_t>(elements) * sizeof(float));
      return;
    case DType::kF16:
      for (int64_t i = 0; i < elements; ++i) out[i] = f32_from_f16(load<uint16_t>(bytes + 2 * i));
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < elements; ++i) {
        out[i] = std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(bytes + 2 * i)) << 16);
      }
      return;
    case DType::kQ8_0: return dequantize_blocks<BlockQ8_0>(bytes, elements, out);
    case DType::kQ4_0: return dequantize_blocks<BlockQ4_0>(bytes, elements, out);
    case DType::kQ4_1: return dequantize_blocks<BlockQ4_1>(bytes, elements, out);
  }
}

void quantize(DType dtype, const float* in, int64_t elements, void* out) {
  CHECK_KERNEL(elements % dtype_block_elements(dtype) == 0);
  uint8_t* bytes = static_cast<uint8_t*>(out);
  const int64_t step = dtype_block_bytes(dtype);
  const int64_t width = dtype_block_elements(dtype);
  for (int64_t i = 0; i < elements; i += width, bytes += step) {
    uint16_t half;
    switch (dtype) {
      case DType::kF32: std::memcpy(bytes, in + i, 4); break;
      case DType::kF16: std::memcpy(bytes, &(half = f16_from_f32(in[i])), 2); break;
      case DType::kBF16: std::memcpy(bytes, &(half = bf16_from_f32(in[i])), 2); break;
      case DType::kQ8_0: quantize_q8_0(in + i, bytes); break;
      case DType::kQ4_0: quantize_q4_0(in + i, bytes); break;
      case DType::kQ4_1: quantize_q4_1(in + i, bytes); break;
    }
  }
}

}  // namespace tandem::tensor
