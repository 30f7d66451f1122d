#pragma once
// The tensor types of a GGUF file: one table, one size formula. A type is stored as blocks of
// block_elements values in block_bytes bytes; a row (the innermost dimension) holds whole blocks.
// Ids, names and block layouts are those of ggml's type enumeration. Pure functions, any thread.

#include <cstdint>
#include <optional>
#include <string>

namespace tandem::format {

// Types whose weights can be computed with. The values are the ids in the file.
enum class TensorType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ8_0 = 8,
  kBF16 = 30,
};

struct TensorTypeInfo {
  uint32_t id;
  const char* name;         // "Q4_1"
  uint32_t block_elements;  // values per block; 1 for plain types
  uint32_t block_bytes;
  bool supported;           // a TensorType
};

// The row of the table, supported or only known by name; null for an unknown id.
const TensorTypeInfo* find_tensor_type(uint32_t id);

const TensorTypeInfo& tensor_type_info(TensorType type);
const char* tensor_type_name(TensorType type);

// "F32, F16, Q4_0, Q4_1, Q8_0, BF16": for messages.
std::string supported_tensor_types();

// The size formula: num_rows rows of row_length values. Empty when the row does not hold whole
// blocks or the product passes 2^64 - 1.
std::optional<uint64_t> tensor_size_bytes(const TensorTypeInfo& type, uint64_t row_length,
                                          uint64_t num_rows);

}  // namespace tandem::format
