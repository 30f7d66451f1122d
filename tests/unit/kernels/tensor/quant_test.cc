#include "kernels/tensor/quant.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/tensor/tensor_view.h"

namespace tandem::tensor {
namespace {

// Any fp16 value from its fields, by the definition of the format.
double f16_by_definition(uint16_t bits) {
  const int sign = bits >> 15 != 0 ? -1 : 1;
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Float16, EveryValueConvertsExactlyAndBack) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float value = f32_from_f16(bits);
    if (std::isnan(f16_by_definition(bits))) {
      ASSERT_TRUE(std::isnan(value)) << i;
      ASSERT_TRUE(std::isnan(f32_from_f16(f16_from_f32(value)))) << i;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), f16_by_definition(bits)) << i;
    ASSERT_EQ(f16_from_f32(value), bits) << i;
  }
}

TEST(Float16, RoundsToNearestEven) {
  EXPECT_EQ(f16_from_f32(1 + 0x1p-11f), 0x3c00);            // tie, even below
  EXPECT_EQ(f16_from_f32(1 + 0x1p-10f + 0x1p-11f), 0x3c02);  // tie, even above
  EXPECT_EQ(f16_from_f32(1 + 0x1p-11f + 0x1p-20f), 0x3c01);
  EXPECT_EQ(f16_from_f32(65519.0f), 0x7bff);
  EXPECT_EQ(f16_from_f32(65520.0f), 0x7c00);
  EXPECT_EQ(f16_from_f32(-1e30f), 0xfc00);
  EXPECT_EQ(f16_from_f32(0x1p-25f), 0x0000);           // tie with zero
  EXPECT_EQ(f16_from_f32(0x1p-25f * 1.5f), 0x0001);
}

TEST(BFloat16, RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(bf16_from_f32(1.0f), 0x3f80);
  EXPECT_EQ(bf16_from_f32(1 + 0x1p-8f), 0x3f80);             // tie, even below
  EXPECT_EQ(bf16_from_f32(1 + 0x1p-7f + 0x1p-8f), 0x3f82);  // tie, even above
  EXPECT_EQ(bf16_from_f32(1 + 0x1p-8f + 0x1p-20f), 0x3f81);
  EXPECT_EQ(bf16_from_f32(3.4e38f), 0x7f80);
  EXPECT_EQ(bf16_from_f32(-INFINITY), 0xff80);
  // A NaN whose upper half alone would read as infinity.
  EXPECT_TRUE(std::isnan(f32_from_bf16(bf16_from_f32(std::bit_cast<float>(0x7f800001u)))));
}

TEST(Dequantize, Q8_0FollowsItsFormula) {
  BlockQ8_0 block;
  block.scale = f16_from_f32(0.37f);
  for (int i = 0; i < 32; ++i) block.code[i] = static_cast<int8_t>(i * 8 - 128);
  float out[32];
  dequantize(DType::kQ8_0, &block, 32, out);
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(static_cast<double>(out[i]), f16_by_definition(block.scale) * (i * 8 - 128)) << i;
  }
}

TEST(Dequantize, Q4_0FollowsItsFormula) {
  BlockQ4_0 block;
  block.scale = f16_from_f32(-0.013f);
  for (int i = 0; i < 16; ++i) block.code[i] = static_cast<uint8_t>(i | (15 - i) << 4);
  float out[32];
  dequantize(DType::kQ4_0, &block, 32, out);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(static_cast<double>(out[i]), f16_by_definition(block.scale) * (i - 8)) << i;
    EXPECT_EQ(static_cast<double>(out[i + 16]), f16_by_definition(block.scale) * (7 - i)) << i;
  }
}

TEST(Dequantize, Q4_1RoundsItsFormulaOnce) {
  BlockQ4_1 block;
  block.scale = f16_from_f32(0.0173f);
  block.minimum = f16_from_f32(-3.1f);
  for (int i = 0; i < 16; ++i) block.code[i] = static_cast<uint8_t>(i | (15 - i) << 4);
  float out[32];
  dequantize(DType::kQ4_1, &block, 32, out);
  const double scale = f16_by_definition(block.scale);
  const double minimum = f16_by_definition(block.minimum);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(out[i], static_cast<float>(scale * i + minimum)) << i;
    EXPECT_EQ(out[i + 16], static_cast<float>(scale * (15 - i) + minimum)) << i;
  }
}

TEST(Dequantize, ReadsUnalignedData) {
  const float values[3] = {1.5f, -2.25f, 1e-3f};
  std::vector<uint8_t> bytes(13);
  std::memcpy(bytes.data() + 1, values, sizeof values);
  float out[3];
  dequantize(DType::kF32, bytes.data() + 1, 3, out);
  EXPECT_EQ(std::memcmp(out, values, sizeof values), 0);
}

TEST(Quantize, ErrorIsAtMostHalfAStep) {
  float in[32];
  for (int i = 0; i < 32; ++i) in[i] = std::sin(static_cast<float>(i) * 1.7f);
  const struct {
    DType dtype;
    float bound;
  } cases[] = {{DType::kQ8_0, 0.5f / 127},
               {DType::kQ4_1, 0.51f * 2 / 15},
               {DType::kQ4_0, 1.05f / 8},  // the code +8 does not exist
               {DType::kF16, 0x1p-11f},
               {DType::kBF16, 0x1p-8f},
               {DType::kF32, 0}};
  for (const auto& c : cases) {
    uint8_t bytes[128];
    float out[32];
    quantize(c.dtype, in, 32, bytes);
    dequantize(c.dtype, bytes, 32, out);
    for (int i = 0; i < 32; ++i) {
      EXPECT_NEAR(out[i], in[i], c.bound * 1.02f) << dtype_name(c.dtype) << " " << i;
    }
  }
}

TEST(DTypeDeathTest, RefusesAPartOfABlock) {
  EXPECT_EQ(dtype_bytes(DType::kQ4_1, 64), 40);
  EXPECT_DEATH((void)dtype_bytes(DType::kQ4_1, 48), "CHECK_KERNEL failed");
}

TEST(TensorView, CutsColumnsAndRows) {
  std::vector<float> data(12);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
  const TensorView view = TensorView::f32(data.data(), 3, 4);
  EXPECT_EQ(view.columns(1, 3).f32_row(2)[0], 9.0f);
  EXPECT_EQ(view.row_range(1, 3).f32_row(0)[0], 4.0f);
  EXPECT_EQ(view.row_range(1, 3).rows, 2);
}

}  // namespace
}  // namespace tandem::tensor
