#include "model/format/tensor_type.h"

#include "comm/runtime/check.h"

namespace tandem::format {
namespace {

constexpr TensorTypeInfo kTypes[] = {
    {0, "F32", 1, 4, true},         {1, "F16", 1, 2, true},
    {2, "Q4_0", 32, 18, true},      {3, "Q4_1", 32, 20, true},
    {6, "Q5_0", 32, 22, false},     {7, "Q5_1", 32, 24, false},
    {8, "Q8_0", 32, 34, true},      {9, "Q8_1", 32, 36, false},
    {10, "Q2_K", 256, 84, false},   {11, "Q3_K", 256, 110, false},
    {12, "Q4_K", 256, 144, false},  {13, "Q5_K", 256, 176, false},
    {14, "Q6_K", 256, 210, false},  {15, "Q8_K", 256, 292, false},
    {16, "IQ2_XXS", 256, 66, false}, {17, "IQ2_XS", 256, 74, false},
    {18, "IQ3_XXS", 256, 98, false}, {19, "IQ1_S", 256, 50, false},
    {20, "IQ4_NL", 32, 18, false},  {21, "IQ3_S", 256, 110, false},
    {22, "IQ2_S", 256, 82, false},  {23, "IQ4_XS", 256, 136, false},
    {24, "I8", 1, 1, false},        {25, "I16", 1, 2, false},
    {26, "I32", 1, 4, false},       {27, "I64", 1, 8, false},
    {28, "F64", 1, 8, false},       {29, "IQ1_M", 256, 56, false},
    {30, "BF16", 1, 2, true},       {34, "TQ1_0", 256, 54, false},
    {35, "TQ2_0", 256, 66, false},  {39, "MXFP4", 32, 17, false},
};

}  // namespace

const TensorTypeInfo* find_tensor_type(uint32_t id) {
  for (const TensorTypeInfo& type : kTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

const TensorTypeInfo& tensor_type_info(TensorType type) {
  const TensorTypeInfo* info = find_tensor_type(static_cast<uint32_t>(type));
  CHECK(info != nullptr && info->supported);
  return *info;
}

const char* tensor_type_name(TensorType type) { return tensor_type_info(type).name; }

std::string supported_tensor_types() {
  std::string names;
  for (const TensorTypeInfo& type : kTypes) {
    if (!type.supported) continue;
    if (!names.empty()) names += ", ";
    names += type.name;
  }
  return names;
}

std::optional<uint64_t> tensor_size_bytes(const TensorTypeInfo& type, uint64_t row_length,
                                          uint64_t num_rows) {
  if (row_length % type.block_elements != 0) return std::nullopt;
  uint64_t row_bytes = 0;
  uint64_t size_bytes = 0;
  if (__builtin_mul_overflow(row_length / type.block_elements, uint64_t{type.block_bytes},
                             &row_bytes) ||
      __builtin_mul_overflow(row_bytes, num_rows, &size_bytes)) {
    return std::nullopt;
  }
  return size_bytes;
}

}  // namespace tandem::format
