#pragma once
// Weights of one rank, in the backend's own layout.

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "comm/runtime/result.h"
#include "kernels/ops/backend.h"
#include "model/format/gguf_file.h"
#include "model/spec/model_spec.h"
#include "worker/weights/shard_plan.h"

namespace tandem::weights {

using Matrix = std::unique_ptr<ops::PackedMatrix>;

// One maximal canonical sub-tree of a row-parallel product: columns [columns.begin, columns.end)
// of this rank's input, summed in the leaves of `leaves`.
struct SubtreeMatrix {
  Matrix matrix;  // [N, columns.size()]
  Range columns;
  ops::LeafLayout leaves;
};

// Input rows are cut over the ranks; a rank that owns one sub-tree (always, with one rank) has one
// part. The sums of all parts of all ranks meet in Communicator::tree_reduce.
using RowParallelMatrix = std::vector<SubtreeMatrix>;

struct LayerWeights {
  tensor::Buffer attention_norm;  // f32 [hidden]
  Matrix q;                       // [q_heads * head_dim, hidden]
  Matrix k;                       // [kv_heads * head_dim, hidden]
  Matrix v;                       // [kv_heads * head_dim, hidden]
  RowParallelMatrix o;            // [hidden, q_heads * head_dim]
  tensor::Buffer ffn_norm;        // f32 [hidden]
  Matrix gate;                    // [ffn, hidden]
  Matrix up;                      // [ffn, hidden]
  RowParallelMatrix down;         // [hidden, ffn]
};

// Immutable after loading; must not outlive the backend that packed it.
struct ModelWeights {
  Matrix embedding;  // [vocab, hidden]; null for a rank that holds no ids or needs none
  std::vector<LayerWeights> layers;
  tensor::Buffer output_norm;  // f32 [hidden]
  Matrix output;               // [vocab, hidden]; null when tied to the embedding
  int64_t matrix_bytes = 0;    // of all packed matrices
  int64_t streamed_bytes = 0;  // of the matrices that every token reads whole

  const ops::PackedMatrix& head() const { return output ? *output : *embedding; }
};

// Called after each tensor, on the loading thread.
struct LoadProgress {
  std::string_view tensor;
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;
};
using ProgressCallback = std::function<void(const LoadProgress&)>;

// Takes every tensor of the file exactly once, or fails by name:
//   kNotFound      a tensor is missing
//   kUnsupported   the backend can't store its type, or a tensor is left over
// May throw tensor::DeviceError. Requires: spec was read from file (so shapes match).
Result<ModelWeights> load_weights(const format::GgufFile& file, const spec::ModelSpec& spec,
                                  const ShardPlan& plan, ops::Backend& backend,
                                  const ProgressCallback& progress);

}  // namespace tandem::weights
