#pragma once
// The decoder of one rank, as in the paper: embed; per layer attention and a gated MLP, each on a
// normed copy and added to the residual stream; norm; head. Written over the op set, the shard plan
// and the communicator, so that it is the same for one rank and for many.

#include <cstdint>

#include "comm/collective/communicator.h"
#include "kernels/ops/backend.h"
#include "model/spec/model_spec.h"
#include "worker/forward/activations.h"
#include "worker/weights/load_weights.h"
#include "worker/weights/shard_plan.h"

namespace tandem::forward {

// Device views of one step.
struct PassInput {
  ops::TokenRows tokens;
  ops::RaggedBatch batch;
  const uint32_t* logit_rows = nullptr;  // [num_logit_rows]
  int64_t num_logit_rows = 0;
};

// What a pass refers to; everything outlives it and is owned by Model.
struct PassParts {
  const spec::ModelSpec& spec;
  const weights::ShardPlan& plan;
  const weights::ModelWeights& weights;
  ops::Backend& backend;
  collective::Communicator& comm;  // the tensor-parallel ranks of this stage
  Activations& activations;
  ops::RopeTable rope;
  ops::KvLayerView kv;  // layer is set per layer
};

// Lives for one step, on the compute thread. Only issues ops; nothing is computed on the host.
class ForwardPass {
 public:
  ForwardPass(const PassParts& parts, tensor::Stream& stream, const PassInput& input);

  // Leaves the residual stream of all rows in activations.x and the logits of the logit rows in
  // activations.logits.
  void run();

 private:
  void embed();
  void attention(const weights::LayerWeights& w, int64_t layer);
  void mlp(const weights::LayerWeights& w);
  void head();
  // f32 [rows, hidden]: the whole sum on every rank, lying in activations.partials.
  tensor::TensorView row_parallel(tensor::TensorView in, const weights::RowParallelMatrix& w,
                                  const weights::TreeSplit& tree);

  const PassParts& p_;
  ops::Backend& op_;
  tensor::Stream& stream_;
  const PassInput& input_;
  // The rows of this step.
  tensor::TensorView x_, normed_, q_, k_, v_, attended_, gate_, up_;
};

}  // namespace tandem::forward
