#pragma once
// One rank's model: weights, KV memory and scratch, and the step that turns a batch of tokens into
// sampled tokens. Which block belongs to whom is not known here: callers pass block tables.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/collective/communicator.h"
#include "comm/runtime/result.h"
#include "kernels/ops/backend.h"
#include "model/format/gguf_file.h"
#include "model/spec/model_spec.h"
#include "worker/forward/activations.h"
#include "worker/forward/numerics_class.h"
#include "worker/forward/step.h"
#include "worker/forward/step_plan.h"
#include "worker/weights/load_weights.h"
#include "worker/weights/shard_plan.h"

namespace tandem::forward {

struct ModelOptions {
  int64_t num_blocks = 0;  // of the KV pool
  int64_t block_size = 32;
  tensor::DType kv_dtype = tensor::DType::kBF16;
  int64_t max_tokens = 512;    // rows of a step
  int64_t max_sequences = 32;  // entries of a step
  int64_t max_logit_rows = 0;  // rows of a step whose logits are computed; 0 = max_sequences
  int64_t max_context = 0;     // positions of a sequence; 0 = what the model was trained for
  weights::RankPosition position{};
};

// What the model runs on; outlives it.
struct ModelDevices {
  ops::Backend& backend;
  collective::Communicator& comm;  // the tensor-parallel ranks
};

// Owned and used by the compute thread alone; only block_bytes() may be used by a link thread, for
// blocks that no running step writes. All memory is taken in load(); run() allocates no device
// memory. Not movable: ops hold addresses into it.
class Model {
 public:
  // Reads and packs the weights and takes all memory. Failures of load_weights and make_shard_plan;
  // kInvalidArgument (field = the option) for options out of range or unknown to the backend.
  // May throw tensor::DeviceError. Requires: spec was read from file.
  static Result<std::unique_ptr<Model>> load(const format::GgufFile& file,
                                             const spec::ModelSpec& spec,
                                             const ModelDevices& devices,
                                             const ModelOptions& options,
                                             const weights::ProgressCallback& progress = {});

  // Computes every entry's tokens, stores their K and V, samples where asked. Entries may continue
  // the same sequence, in order of position. A broken row never affects another entry.
  // Throws tensor::DeviceError. Requires: the batch is within the options.
  StepOutput run(const StepBatch& batch);

  // The block's bytes in layout() order: all layers are one run. CPU memory only.
  // Requires: block < num_blocks.
  std::span<std::byte> block_bytes(uint32_t block);

  const spec::ModelSpec& spec() const { return spec_; }
  const ModelOptions& options() const { return options_; }  // defaults filled in
  const ops::PagedKvLayout& layout() const { return kv_layout_; }
  const NumericsClass& numerics() const { return numerics_; }
  const weights::ShardPlan& shard_plan() const { return plan_; }
  // Of packed matrices: all, and those that every step reads whole.
  int64_t matrix_bytes() const { return weights_.matrix_bytes; }
  int64_t streamed_bytes() const { return weights_.streamed_bytes; }

 private:
  struct Parts;
  explicit Model(Parts parts);

  EntryOutput finish_entry(const StepEntry& entry, int64_t first_row, int64_t first_logit_row);
  void upload_rope_table();

  spec::ModelSpec spec_;
  ModelOptions options_;
  weights::ShardPlan plan_;
  ops::Backend& backend_;
  collective::Communicator& comm_;
  weights::ModelWeights weights_;
  NumericsClass numerics_;
  ops::PagedKvLayout kv_layout_;
  tensor::Buffer kv_memory_;
  tensor::Buffer rope_memory_;
  ops::RopeTable rope_;
  Activations activations_;
  StepPlan step_;
  std::unique_ptr<tensor::Stream> stream_;
  std::vector<float> host_x_;       // [max_tokens, hidden]
  std::vector<float> host_logits_;  // [max_logit_rows, vocab]
  sampling::SortScratch sort_scratch_;
};

}  // namespace tandem::forward
