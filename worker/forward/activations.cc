#include "worker/forward/activations.h"

#include <algorithm>

namespace tandem::forward {
namespace {

constexpr int64_t kAlignElements = 16;  // rows of every buffer begin on 64 bytes

int64_t rounded(int64_t elements) {
  return (elements + kAlignElements - 1) / kAlignElements * kAlignElements;
}

int64_t most_subtrees(const weights::ShardPlan& plan) {
  const auto count = [&plan](const weights::TreeSplit& tree) {
    const auto owned = tree.owned[static_cast<size_t>(plan.position.tp_rank)];
    return collective::owned_subtrees(tree.num_leaves(), owned).size();
  };
  return static_cast<int64_t>(std::max(count(plan.attention), count(plan.ffn_tree)));
}

}  // namespace

Activations make_activations(const spec::ModelSpec& spec, const weights::ShardPlan& plan,
                             int64_t max_tokens, int64_t max_logit_rows, ops::Backend& backend) {
  struct Wanted {
    tensor::TensorView Activations::*view;
    int64_t rows;
    int64_t cols;
  };
  const int64_t q_width = plan.q_heads.size() * spec.head_dim;
  const int64_t kv_width = plan.kv_heads.size() * spec.head_dim;
  const Wanted wanted[] = {
      {&Activations::x, max_tokens, spec.hidden},
      {&Activations::normed, max_tokens, spec.hidden},
      {&Activations::q, max_tokens, q_width},
      {&Activations::k, max_tokens, kv_width},
      {&Activations::v, max_tokens, kv_width},
      {&Activations::attended, max_tokens, q_width},
      {&Activations::gate, max_tokens, plan.ffn.size()},
      {&Activations::up, max_tokens, plan.ffn.size()},
      {&Activations::partials, most_subtrees(plan) * max_tokens, spec.hidden},
      {&Activations::head_in, max_logit_rows, spec.hidden},
      {&Activations::logits, max_logit_rows, plan.vocab.size()},
  };
  int64_t elements = 0;
  for (const Wanted& w : wanted) elements += rounded(w.rows * w.cols);
  Activations out;
  out.memory = backend.allocate(elements * static_cast<int64_t>(sizeof(float)));
  float* next = out.memory.as<float>().data();
  for (const Wanted& w : wanted) {
    out.*w.view = tensor::TensorView::f32(next, w.rows, w.cols);
    next += rounded(w.rows * w.cols);
  }
  return out;
}

}  // namespace tandem::forward
