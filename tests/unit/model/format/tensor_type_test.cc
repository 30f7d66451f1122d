#include "model/format/tensor_type.h"

#include <gtest/gtest.h>

namespace tandem::format {
namespace {

TEST(TensorType, SizeFormulaCountsWholeBlocks) {
  struct Case { TensorType type; uint64_t row; uint64_t rows; uint64_t bytes; };
  const Case cases[] = {
      {TensorType::kF32, 3, 5, 60},      {TensorType::kF16, 3, 5, 30},
      {TensorType::kBF16, 3, 5, 30},     {TensorType::kQ8_0, 64, 3, 204},
      {TensorType::kQ4_0, 64, 3, 108},   {TensorType::kQ4_1, 64, 3, 120},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(tensor_size_bytes(tensor_type_info(c.type), c.row, c.rows), c.bytes)
        << tensor_type_name(c.type);
  }
}

TEST(TensorType, NoSizeForHalfBlocksOrPast64Bits) {
  const TensorTypeInfo& q8 = tensor_type_info(TensorType::kQ8_0);
  EXPECT_FALSE(tensor_size_bytes(q8, 48, 1).has_value());
  EXPECT_FALSE(tensor_size_bytes(q8, ~uint64_t{31}, 1).has_value());
  EXPECT_FALSE(tensor_size_bytes(tensor_type_info(TensorType::kF32), uint64_t{1} << 62, 1));
  EXPECT_FALSE(tensor_size_bytes(tensor_type_info(TensorType::kF32), 1, uint64_t{1} << 62));
  EXPECT_EQ(tensor_size_bytes(tensor_type_info(TensorType::kF32), 1, (uint64_t{1} << 62) - 1),
            ~uint64_t{3});
}

TEST(TensorType, KnowsOtherTypesByName) {
  ASSERT_NE(find_tensor_type(11), nullptr);
  EXPECT_STREQ(find_tensor_type(11)->name, "Q3_K");
  EXPECT_FALSE(find_tensor_type(11)->supported);
  EXPECT_EQ(find_tensor_type(12345), nullptr);
  EXPECT_EQ(supported_tensor_types(), "F32, F16, Q4_0, Q4_1, Q8_0, BF16");
}

}  // namespace
}  // namespace tandem::format
