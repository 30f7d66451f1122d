#include "worker/forward/forward_pass.h"

#include <cmath>

namespace tandem::forward {

using tensor::TensorView;

ForwardPass::ForwardPass(const PassParts& parts, tensor::Stream& stream, const PassInput& input)
    : p_(parts), op_(parts.backend), stream_(stream), input_(input) {
  const int64_t rows = input.tokens.num_tokens;
  const Activations& a = parts.activations;
  x_ = a.x.row_range(0, rows);
  normed_ = a.normed.row_range(0, rows);
  q_ = a.q.row_range(0, rows);
  k_ = a.k.row_range(0, rows);
  v_ = a.v.row_range(0, rows);
  attended_ = a.attended.row_range(0, rows);
  gate_ = a.gate.row_range(0, rows);
  up_ = a.up.row_range(0, rows);
}

void ForwardPass::run() {
  embed();
  for (size_t i = 0; i < p_.weights.layers.size(); ++i) {
    attention(p_.weights.layers[i], static_cast<int64_t>(i));
    mlp(p_.weights.layers[i]);
  }
  head();
}

void ForwardPass::embed() {
  // A rank gives zeros for ids of other ranks, so the sum over ranks is the one true row.
  op_.embed(stream_, input_.tokens, *p_.weights.embedding, x_);
  p_.comm.tree_reduce(stream_, {.partials = x_,
                                .out = x_,
                                .num_leaves = p_.plan.position.tp,
                                .owned = p_.plan.rank_leaves});
}

// x += O · attention(rope(Q · norm(x)), rope(K · norm(x)), V · norm(x))
void ForwardPass::attention(const weights::LayerWeights& w, int64_t layer) {
  const int64_t head_dim = p_.spec.head_dim;
  ops::KvLayerView kv = p_.kv;
  kv.layer = layer;
  op_.rms_norm(stream_, x_, w.attention_norm.as<const float>().data(),
               static_cast<float>(p_.spec.rms_eps), normed_);
  op_.matmul(stream_, normed_, *w.q, q_);
  op_.matmul(stream_, normed_, *w.k, k_);
  op_.matmul(stream_, normed_, *w.v, v_);
  op_.rope(stream_, q_, head_dim, input_.batch, p_.rope);
  op_.rope(stream_, k_, head_dim, input_.batch, p_.rope);
  op_.append_kv(stream_, k_, v_, input_.batch, kv);
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
  op_.attention(stream_, {.q = q_, .batch = input_.batch, .kv = kv, .scale = scale}, attended_);
  op_.add(stream_, x_, row_parallel(attended_, w.o, p_.plan.attention), x_);
}

// x += Down · (silu(Gate · norm(x)) * (Up · norm(x)))
void ForwardPass::mlp(const weights::LayerWeights& w) {
  op_.rms_norm(stream_, x_, w.ffn_norm.as<const float>().data(),
               static_cast<float>(p_.spec.rms_eps), normed_);
  op_.matmul(stream_, normed_, *w.gate, gate_);
  op_.matmul(stream_, normed_, *w.up, up_);
  op_.silu_mul(stream_, gate_, up_, gate_);
  op_.add(stream_, x_, row_parallel(gate_, w.down, p_.plan.ffn_tree), x_);
}

void ForwardPass::head() {
  if (input_.num_logit_rows == 0) return;
  const TensorView in = p_.activations.head_in.row_range(0, input_.num_logit_rows);
  op_.gather_rows(stream_, x_, input_.logit_rows, in);
  op_.rms_norm(stream_, in, p_.weights.output_norm.as<const float>().data(),
               static_cast<float>(p_.spec.rms_eps), in);
  op_.matmul(stream_, in, p_.weights.head(),
             p_.activations.logits.row_range(0, input_.num_logit_rows));
}

TensorView ForwardPass::row_parallel(TensorView in, const weights::RowParallelMatrix& w,
                                     const weights::TreeSplit& tree) {
  const TensorView partials =
      p_.activations.partials.row_range(0, static_cast<int64_t>(w.size()) * in.rows);
  for (size_t i = 0; i < w.size(); ++i) {
    const auto first_row = static_cast<int64_t>(i) * in.rows;
    op_.matmul_tree(stream_, in.columns(w[i].columns.begin, w[i].columns.end), *w[i].matrix,
                    w[i].leaves, partials.row_range(first_row, first_row + in.rows));
  }
  const TensorView sum = p_.activations.partials.row_range(0, in.rows);
  p_.comm.tree_reduce(stream_, {.partials = partials,
                                .out = sum,
                                .num_leaves = tree.num_leaves(),
                                .owned = tree.owned});
  return sum;
}

}  // namespace tandem::forward
