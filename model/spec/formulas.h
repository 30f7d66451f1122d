#pragma once
// The one place of the formulas over a ModelSpec: parameters, bytes, operations. Pure functions.
// Symbols: L layers, h_q and h_kv heads, d_h head width, b bytes of a KV value.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/runtime/result.h"
#include "model/format/gguf_file.h"
#include "model/spec/model_spec.h"

namespace tandem::spec {

// How K and V are stored. The spec's own enumeration: model/ never sees kernels.
enum class KvDtype { kF32, kBf16 };
const char* kv_dtype_name(KvDtype dtype);  // "f32", "bf16"
// kInvalidArgument for any other name.
Result<KvDtype> parse_kv_dtype(std::string_view name);
uint64_t kv_dtype_bytes(KvDtype dtype);

// 2 * L * h_kv * d_h * b, all layers.
uint64_t kv_bytes_per_token(const ModelSpec& spec, KvDtype dtype);
// 2 * h_kv * d_h * b
uint64_t kv_bytes_per_token_per_layer(const ModelSpec& spec, KvDtype dtype);

// A tied head counts once.
uint64_t parameter_count(const ModelSpec& spec);

// Multiply-adds count as two. Matrix products of one token through all layers and the head.
uint64_t matmul_flops_per_token(const ModelSpec& spec);
// The head's share of that: only tokens that are sampled after need it.
uint64_t head_flops_per_token(const ModelSpec& spec);
// Scores and weighted values of one token that sees context_length positions:
// 4 * L * h_q * d_h * context_length.
uint64_t attention_flops_per_token(const ModelSpec& spec, uint64_t context_length);
// Both.
uint64_t flops_per_token(const ModelSpec& spec, uint64_t context_length);

struct TypeTotal {
  format::TensorType type = format::TensorType::kF32;
  uint64_t num_tensors = 0;
  uint64_t size_bytes = 0;
};
// By type id, only types that occur.
std::vector<TypeTotal> totals_by_type(const format::GgufFile& file);
// All tensors, as stored in the file.
uint64_t weight_bytes(const format::GgufFile& file);
// What one decoded token reads: every tensor, but of an embedding that is not also the head only
// one row. Requires: spec was read from file.
uint64_t weight_bytes_per_token(const format::GgufFile& file, const ModelSpec& spec);

// Can the model be split over tp ranks? tp <= h_kv, or tp a multiple of h_kv whose replicas divide
// the query heads of a KV head. kInvalidArgument naming the numbers.
Status check_tensor_parallel(const ModelSpec& spec, int32_t tp);
// The degrees up to limit that can.
std::vector<int32_t> tensor_parallel_degrees(const ModelSpec& spec, int32_t limit);
// The bits of one rank survive only while every rank owns whole leaves of the canonical reduction
// tree (at most 8, groups of KV heads). Requires: check_tensor_parallel passed.
bool tensor_parallel_is_bit_exact(const ModelSpec& spec, int32_t tp);

}  // namespace tandem::spec
