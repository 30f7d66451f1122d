#include "model/spec/formulas.h"

#include <algorithm>
#include <map>

namespace tandem::spec {
namespace {

constexpr int32_t kMaxReductionLeaves = 8;

uint64_t u64(int32_t value) { return static_cast<uint64_t>(value); }

// Values of the matrices of one layer: q, k, v, o, gate, up, down.
uint64_t layer_matrix_values(const ModelSpec& spec) {
  const uint64_t attention =
      2 * u64(spec.hidden) * (u64(spec.q_width()) + u64(spec.kv_width()));
  const uint64_t mlp = 3 * u64(spec.hidden) * u64(spec.ffn);
  return attention + mlp;
}

uint64_t embedding_values(const ModelSpec& spec) { return u64(spec.vocab) * u64(spec.hidden); }

}  // namespace

const char* kv_dtype_name(KvDtype dtype) { return dtype == KvDtype::kF32 ? "f32" : "bf16"; }

Result<KvDtype> parse_kv_dtype(std::string_view name) {
  for (const KvDtype dtype : {KvDtype::kF32, KvDtype::kBf16}) {
    if (name == kv_dtype_name(dtype)) return dtype;
  }
  return Error{ErrorCode::kInvalidArgument,
               "KV dtype " + format::quoted(name) + " is not known (f32, bf16)", "kv.dtype"};
}

uint64_t kv_dtype_bytes(KvDtype dtype) { return dtype == KvDtype::kF32 ? 4 : 2; }

uint64_t kv_bytes_per_token_per_layer(const ModelSpec& spec, KvDtype dtype) {
  return 2 * u64(spec.num_kv_heads) * u64(spec.head_dim) * kv_dtype_bytes(dtype);
}

uint64_t kv_bytes_per_token(const ModelSpec& spec, KvDtype dtype) {
  return u64(spec.num_layers) * kv_bytes_per_token_per_layer(spec, dtype);
}

uint64_t parameter_count(const ModelSpec& spec) {
  const uint64_t embeddings = embedding_values(spec) * (spec.tied_head ? 1 : 2);
  const uint64_t norms = u64(spec.hidden) * (2 * u64(spec.num_layers) + 1);
  return embeddings + norms + u64(spec.num_layers) * layer_matrix_values(spec);
}

uint64_t matmul_flops_per_token(const ModelSpec& spec) {
  return 2 * (u64(spec.num_layers) * layer_matrix_values(spec) + embedding_values(spec));
}

uint64_t head_flops_per_token(const ModelSpec& spec) { return 2 * embedding_values(spec); }

uint64_t attention_flops_per_token(const ModelSpec& spec, uint64_t context_length) {
  return 4 * u64(spec.num_layers) * u64(spec.q_width()) * context_length;
}

uint64_t flops_per_token(const ModelSpec& spec, uint64_t context_length) {
  return matmul_flops_per_token(spec) + attention_flops_per_token(spec, context_length);
}

std::vector<TypeTotal> totals_by_type(const format::GgufFile& file) {
  std::map<format::TensorType, TypeTotal> by_type;
  for (const format::TensorInfo& tensor : file.tensors()) {
    TypeTotal& total = by_type[tensor.type];
    total.type = tensor.type;
    total.num_tensors += 1;
    total.size_bytes += tensor.size_bytes;
  }
  std::vector<TypeTotal> totals;
  for (const auto& [type, total] : by_type) totals.push_back(total);
  return totals;
}

uint64_t weight_bytes(const format::GgufFile& file) {
  uint64_t total = 0;
  for (const format::TensorInfo& tensor : file.tensors()) total += tensor.size_bytes;
  return total;
}

uint64_t weight_bytes_per_token(const format::GgufFile& file, const ModelSpec& spec) {
  const uint64_t all = weight_bytes(file);
  if (spec.tied_head) return all;
  const format::TensorInfo* embedding = file.find_tensor("token_embd.weight");
  CHECK(embedding != nullptr);
  return all - embedding->size_bytes + embedding->size_bytes / embedding->num_rows();
}

Status check_tensor_parallel(const ModelSpec& spec, int32_t tp) {
  const int32_t kv = spec.num_kv_heads;
  if (tp >= 1 && tp <= kv) return {};
  if (tp > kv && tp % kv == 0 && spec.heads_per_kv_head() % (tp / kv) == 0) return {};
  return Error{ErrorCode::kInvalidArgument,
               "tp " + std::to_string(tp) + " can't split " + std::to_string(spec.num_heads) +
                   " query and " + std::to_string(kv) + " KV heads: tp must be 1 to " +
                   std::to_string(kv) + ", or a multiple of " + std::to_string(kv) +
                   " whose quotient divides " + std::to_string(spec.heads_per_kv_head()),
               "tp"};
}

std::vector<int32_t> tensor_parallel_degrees(const ModelSpec& spec, int32_t limit) {
  std::vector<int32_t> degrees;
  for (int32_t tp = 1; tp <= std::min(limit, spec.num_heads); ++tp) {
    if (check_tensor_parallel(spec, tp).ok()) degrees.push_back(tp);
  }
  return degrees;
}

bool tensor_parallel_is_bit_exact(const ModelSpec& spec, int32_t tp) {
  return tp <= std::min(kMaxReductionLeaves, spec.num_kv_heads);
}

}  // namespace tandem::spec
