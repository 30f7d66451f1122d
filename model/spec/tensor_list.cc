#include "model/spec/tensor_list.h"

#include <set>
#include <string_view>

namespace tandem::spec {
namespace {

std::vector<uint64_t> shape_of(const format::TensorInfo& tensor) {
  return {tensor.dims.begin(), tensor.dims.begin() + tensor.num_dims};
}

Error extra_tensor(std::string_view name) {
  std::string message = "tensor " + format::quoted(name) + " is not part of this model";
  if (name == "rope_freqs.weight") {
    message = "tensor 'rope_freqs.weight' (Llama 3 rope scaling) is not supported yet";
  } else if (name.ends_with(".bias")) {
    message = "tensor " + format::quoted(name) + ": biases are not supported yet";
  }
  return {ErrorCode::kUnsupported, message, std::string(name)};
}

Status check_tensor(const ExpectedTensor& expected, const format::GgufFile& file) {
  const format::TensorInfo* tensor = file.find_tensor(expected.name);
  if (tensor == nullptr) {
    return Error{ErrorCode::kNotFound, "tensor '" + expected.name + "' is missing", expected.name};
  }
  if (shape_of(*tensor) != expected.shape) {
    return Error{ErrorCode::kCorrupt,
                 "tensor '" + expected.name + "' has shape " + format::shape_text(*tensor) +
                     ", the metadata say " + format::shape_text(expected.shape),
                 expected.name};
  }
  if (expected.shape.size() == 1 && tensor->type != format::TensorType::kF32) {
    return Error{ErrorCode::kUnsupported,
                 std::string("unsupported type ") + format::tensor_type_name(tensor->type) +
                     " of tensor '" + expected.name + "': norms must be F32",
                 expected.name};
  }
  return {};
}

}  // namespace

std::string layer_tensor_name(int32_t layer, const std::string& leaf) {
  return "blk." + std::to_string(layer) + "." + leaf + ".weight";
}

std::vector<ExpectedTensor> expected_tensors(const ModelSpec& spec) {
  const auto hidden = static_cast<uint64_t>(spec.hidden);
  const auto q_width = static_cast<uint64_t>(spec.q_width());
  const auto kv_width = static_cast<uint64_t>(spec.kv_width());
  const auto ffn = static_cast<uint64_t>(spec.ffn);
  const auto vocab = static_cast<uint64_t>(spec.vocab);
  std::vector<ExpectedTensor> list = {{"token_embd.weight", {hidden, vocab}}};
  for (int32_t layer = 0; layer < spec.num_layers; ++layer) {
    const auto add = [&](const char* leaf, std::vector<uint64_t> shape) {
      list.push_back({layer_tensor_name(layer, leaf), std::move(shape)});
    };
    add("attn_norm", {hidden});
    add("attn_q", {hidden, q_width});
    add("attn_k", {hidden, kv_width});
    add("attn_v", {hidden, kv_width});
    add("attn_output", {q_width, hidden});
    add("ffn_norm", {hidden});
    add("ffn_gate", {hidden, ffn});
    add("ffn_up", {hidden, ffn});
    add("ffn_down", {ffn, hidden});
  }
  list.push_back({"output_norm.weight", {hidden}});
  if (!spec.tied_head) list.push_back({"output.weight", {hidden, vocab}});
  return list;
}

Status check_tensors(const ModelSpec& spec, const format::GgufFile& file) {
  std::set<std::string, std::less<>> names;
  for (const ExpectedTensor& expected : expected_tensors(spec)) {
    if (Status checked = check_tensor(expected, file); !checked.ok()) return checked;
    names.insert(expected.name);
  }
  for (const format::TensorInfo& tensor : file.tensors()) {
    if (!names.contains(tensor.name)) return extra_tensor(tensor.name);
  }
  return {};
}

}  // namespace tandem::spec
