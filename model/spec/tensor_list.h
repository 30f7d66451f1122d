#pragma once
// The tensors a model of a given spec consists of: names and shapes, as they must lie in the
// file. Pure functions.

#include <cstdint>
#include <string>
#include <vector>

#include "comm/runtime/result.h"
#include "model/format/gguf_file.h"
#include "model/spec/model_spec.h"

namespace tandem::spec {

// shape: innermost first, as in the file. A weight [in, out] maps rows of `in` values to `out`.
// One-dimensional tensors (norms) must be F32.
struct ExpectedTensor {
  std::string name;
  std::vector<uint64_t> shape;

  bool operator==(const ExpectedTensor&) const = default;
};

// "blk.3.attn_q.weight". leaf: "attn_norm", "attn_q", "attn_k", "attn_v", "attn_output",
// "ffn_norm", "ffn_gate", "ffn_up", "ffn_down".
std::string layer_tensor_name(int32_t layer, const std::string& leaf);

// token_embd, the layers in order (each: attn_norm, attn_q, attn_k, attn_v, attn_output, ffn_norm,
// ffn_gate, ffn_up, ffn_down), output_norm, and output unless the head is tied.
std::vector<ExpectedTensor> expected_tensors(const ModelSpec& spec);

// The file has exactly these. field = the tensor. kNotFound: missing; kCorrupt: another shape;
// kUnsupported: one that the model does not know, or a norm that is not F32.
Status check_tensors(const ModelSpec& spec, const format::GgufFile& file);

}  // namespace tandem::spec
