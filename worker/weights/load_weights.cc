#include "worker/weights/load_weights.h"

#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "comm/runtime/check.h"
#include "model/format/tensor_consumption.h"
#include "model/spec/tensor_list.h"

namespace tandem::weights {
namespace {

using format::TensorInfo;
using format::TensorType;

tensor::DType dtype_of(TensorType type) {
  switch (type) {
    case TensorType::kF32: return tensor::DType::kF32;
    case TensorType::kF16: return tensor::DType::kF16;
    case TensorType::kBF16: return tensor::DType::kBF16;
    case TensorType::kQ8_0: return tensor::DType::kQ8_0;
    case TensorType::kQ4_0: return tensor::DType::kQ4_0;
    case TensorType::kQ4_1: return tensor::DType::kQ4_1;
  }
  CHECK(!"a tensor type without a dtype");
}

ops::RawMatrix raw_matrix(const format::GgufFile& file, const TensorInfo& info) {
  return {.dtype = dtype_of(info.type),
          .bytes = file.tensor_bytes(info),
          .rows = static_cast<int64_t>(info.num_rows()),
          .cols = static_cast<int64_t>(info.row_length())};
}

// Takes tensors out of the file one by one. The first failure sticks; later calls do nothing.
class Loader {
 public:
  Loader(const format::GgufFile& file, ops::Backend& backend, const ProgressCallback& progress)
      : file_(file), backend_(backend), progress_(progress), consumption_(file),
        stream_(backend.make_stream()) {
    for (const TensorInfo& info : file.tensors()) {
      total_bytes_ += static_cast<int64_t>(info.size_bytes);
    }
  }

  // Rows of a matrix, all columns; null for no rows.
  Matrix rows(const std::string& name, const Range& range) {
    const std::optional<ops::RawMatrix> raw = take(name);
    if (!raw || range.size() == 0) return nullptr;
    return pack(*raw, {range.begin, range.end, 0, raw->cols});
  }

  // This rank's columns of a row-parallel matrix, one part per canonical sub-tree it owns.
  RowParallelMatrix columns(const std::string& name, const TreeSplit& tree, int32_t tp_rank) {
    RowParallelMatrix parts;
    const std::optional<ops::RawMatrix> raw = take(name);
    if (!raw) return parts;
    const int64_t first_column = tree.columns(tp_rank).begin;
    const auto owned = tree.owned[static_cast<size_t>(tp_rank)];
    for (const auto& subtree : collective::owned_subtrees(tree.num_leaves(), owned)) {
      SubtreeMatrix part;
      const auto bound = [&](int32_t leaf) { return tree.k_begin[static_cast<size_t>(leaf)]; };
      part.leaves.num_leaves = subtree.end - subtree.begin;
      for (int32_t leaf = subtree.begin; leaf <= subtree.end; ++leaf) {
        part.leaves.k_begin[leaf - subtree.begin] = bound(leaf) - bound(subtree.begin);
      }
      part.columns = {bound(subtree.begin) - first_column, bound(subtree.end) - first_column};
      part.matrix = pack(*raw, {0, raw->rows, bound(subtree.begin), bound(subtree.end)});
      parts.push_back(std::move(part));
    }
    return parts;
  }

  // An F32 vector (a norm).
  tensor::Buffer vector(const std::string& name) {
    const std::optional<ops::RawMatrix> raw = take(name);
    if (!raw) return {};
    CHECK(raw->dtype == tensor::DType::kF32);
    const auto size_bytes = static_cast<int64_t>(raw->bytes.size());
    tensor::Buffer out = backend_.allocate(size_bytes);
    backend_.upload(*stream_, raw->bytes.data(), out.data(), size_bytes);
    stream_->synchronize();
    return out;
  }

  void leave(const std::string& name) {
    if (status_.ok()) status_ = consumption_.leave(name);
  }

  Status finish() { return status_.ok() ? consumption_.finish() : status_; }
  int64_t matrix_bytes() const { return matrix_bytes_; }

 private:
  std::optional<ops::RawMatrix> take(const std::string& name) {
    if (!status_.ok()) return std::nullopt;
    const Result<const TensorInfo*> info = consumption_.take(name);
    if (!info.ok()) {
      status_ = info.error();
      return std::nullopt;
    }
    const ops::RawMatrix raw = raw_matrix(file_, **info);
    if (!backend_.capabilities().can_store_weight(raw.dtype)) {
      status_ = Error{ErrorCode::kUnsupported,
                      "tensor '" + name + "': the op set '" + backend_.name() +
                          "' can't store weights of type " + tensor::dtype_name(raw.dtype),
                      name};
      return std::nullopt;
    }
    done_bytes_ += static_cast<int64_t>(raw.bytes.size());
    if (progress_) progress_({name, done_bytes_, total_bytes_});
    return raw;
  }

  Matrix pack(const ops::RawMatrix& raw, const ops::MatrixSlice& slice) {
    Matrix matrix = backend_.pack(raw, slice);
    matrix_bytes_ += matrix->size_bytes();
    return matrix;
  }

  const format::GgufFile& file_;
  ops::Backend& backend_;
  const ProgressCallback& progress_;
  format::TensorConsumption consumption_;
  std::unique_ptr<tensor::Stream> stream_;
  Status status_;
  int64_t done_bytes_ = 0;
  int64_t total_bytes_ = 0;
  int64_t matrix_bytes_ = 0;
};

LayerWeights load_layer(Loader& loader, int32_t layer, const spec::ModelSpec& spec,
                        const ShardPlan& plan) {
  const auto name = [layer](const char* leaf) { return spec::layer_tensor_name(layer, leaf); };
  const auto width = [&spec](const Range& heads) {
    return Range{heads.begin * spec.head_dim, heads.end * spec.head_dim};
  };
  const int32_t tp_rank = plan.position.tp_rank;
  LayerWeights w;
  w.attention_norm = loader.vector(name("attn_norm"));
  w.q = loader.rows(name("attn_q"), width(plan.q_heads));
  w.k = loader.rows(name("attn_k"), width(plan.kv_heads));
  w.v = loader.rows(name("attn_v"), width(plan.kv_heads));
  w.o = loader.columns(name("attn_output"), plan.attention, tp_rank);
  w.ffn_norm = loader.vector(name("ffn_norm"));
  w.gate = loader.rows(name("ffn_gate"), plan.ffn);
  w.up = loader.rows(name("ffn_up"), plan.ffn);
  w.down = loader.columns(name("ffn_down"), plan.ffn_tree, tp_rank);
  return w;
}

void leave_layer(Loader& loader, int32_t layer) {
  for (const char* leaf : {"attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm",
                           "ffn_gate", "ffn_up", "ffn_down"}) {
    loader.leave(spec::layer_tensor_name(layer, leaf));
  }
}

}  // namespace

Result<ModelWeights> load_weights(const format::GgufFile& file, const spec::ModelSpec& spec,
                                  const ShardPlan& plan, ops::Backend& backend,
                                  const ProgressCallback& progress) {
  Loader loader(file, backend, progress);
  ModelWeights w;
  // A tied head is needed on the last stage too.
  if (plan.first_stage() || (plan.last_stage() && spec.tied_head)) {
    w.embedding = loader.rows("token_embd.weight", plan.vocab);
  } else {
    loader.leave("token_embd.weight");
  }
  for (int32_t layer = 0; layer < spec.num_layers; ++layer) {
    const bool mine = plan.layers.begin <= layer && layer < plan.layers.end;
    if (mine) {
      w.layers.push_back(load_layer(loader, layer, spec, plan));
    } else {
      leave_layer(loader, layer);
    }
  }
  if (plan.last_stage()) {
    w.output_norm = loader.vector("output_norm.weight");
    if (!spec.tied_head) w.output = loader.rows("output.weight", plan.vocab);
  } else {
    loader.leave("output_norm.weight");
    if (!spec.tied_head) loader.leave("output.weight");
  }
  if (Status status = loader.finish(); !status.ok()) return status.error();
  w.matrix_bytes = loader.matrix_bytes();
  // An embedding that is not the head too is read by the row.
  const bool looked_up_only = w.embedding && (!spec.tied_head || !plan.last_stage());
  w.streamed_bytes = w.matrix_bytes - (looked_up_only ? w.embedding->size_bytes() : 0);
  return w;
}

}  // namespace tandem::weights
