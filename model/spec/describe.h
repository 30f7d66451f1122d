#pragma once
// What `tandem inspect` says about a model file. Pure functions of file and spec.

#include <string>

#include "model/format/gguf_file.h"
#include "model/spec/model_spec.h"

namespace tandem::spec {

// Lines for a terminal, each ending with a newline. Requires: spec was read from file.
std::string describe(const format::GgufFile& file, const ModelSpec& spec);

// The same as one JSON object on one line (no newline at the end), numbers as numbers: path,
// model_digest, architecture, name, parameters, layers, hidden, query_heads, kv_heads, head_dim,
// attention, ffn, vocab, max_context, rms_eps, rope {base, scaling, factor}, tied_head,
// tensors [{type, count, bytes}], weight_bytes, weight_bytes_per_token,
// kv_bytes_per_token {f32, bf16}, flops_per_token (without attention),
// attention_flops_per_context_token, tp [{degree, bit_exact}].
std::string describe_json(const format::GgufFile& file, const ModelSpec& spec);

}  // namespace tandem::spec
