#pragma once
// The named buffers a forward pass works in, all f32, one allocation made at start.

#include <cstdint>

#include "kernels/ops/backend.h"
#include "model/spec/model_spec.h"
#include "worker/weights/shard_plan.h"

namespace tandem::forward {

// Views hold the most rows a step may have; a step uses the first ones of each.
struct Activations {
  tensor::TensorView x;         // [max_tokens, hidden], the residual stream
  tensor::TensorView normed;    // [max_tokens, hidden]
  tensor::TensorView q;         // [max_tokens, q_heads * head_dim]
  tensor::TensorView k;         // [max_tokens, kv_heads * head_dim]
  tensor::TensorView v;         // [max_tokens, kv_heads * head_dim]
  tensor::TensorView attended;  // [max_tokens, q_heads * head_dim]
  tensor::TensorView gate;      // [max_tokens, ffn]
  tensor::TensorView up;        // [max_tokens, ffn]
  tensor::TensorView partials;  // [max_subtrees * max_tokens, hidden], row-parallel sums
  tensor::TensorView head_in;   // [max_logit_rows, hidden]
  tensor::TensorView logits;    // [max_logit_rows, vocab], this rank's ids
  tensor::Buffer memory;
};

Activations make_activations(const spec::ModelSpec& spec, const weights::ShardPlan& plan,
                             int64_t max_tokens, int64_t max_logit_rows, ops::Backend& backend);

}  // namespace tandem::forward
