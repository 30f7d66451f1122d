#include "model/spec/model_spec.h"

#include <string>

#include "model/spec/key_reader.h"
#include "model/spec/tensor_list.h"

namespace tandem::spec {
namespace {

// Ranges wide enough for any published dense decoder, tight enough that no product of them
// overflows 64 bits, and that q_width fits 32.
constexpr int32_t kMaxLayers = 1024;
constexpr int32_t kMaxHidden = 1 << 17;
constexpr int32_t kMaxHeads = 1 << 12;
constexpr int32_t kMaxHeadDim = 1 << 10;
constexpr int32_t kMaxFfn = 1 << 20;
constexpr int32_t kMaxVocab = 1 << 22;
constexpr int32_t kMaxContext = 1 << 24;
constexpr double kMinEps = 1e-12;
constexpr double kMaxEps = 1e-1;
constexpr double kMinRopeBase = 1.0;
constexpr double kMaxRopeBase = 1e12;
constexpr double kMaxRopeFactor = 1e4;
constexpr int32_t kQuantizationVersion = 2;

constexpr std::string_view kLlama = "llama";
constexpr const char* kPermutedLayout = "Meta AI original pth";

std::string str(int64_t number) { return std::to_string(number); }

Status check_general(const format::GgufFile& file) {
  const Result<std::string_view> architecture = file.string_at("general.architecture");
  if (!architecture.ok()) return architecture.error();
  if (*architecture != kLlama) {
    return Error{ErrorCode::kUnsupported,
                 "architecture " + format::quoted(*architecture) +
                     " is not supported (supported: " + supported_architectures() + ")",
                 "general.architecture"};
  }
  KeyReader general(file, "general.");
  if (const std::string type = general.text("type", "model"); type != "model") {
    general.fail(ErrorCode::kUnsupported, "type",
                 "general.type is " + format::quoted(type) + ", only 'model' can be served");
  }
  // Version 1 had other block layouts under the same type ids.
  if (general.has("quantization_version")) {
    general.integer("quantization_version", kQuantizationVersion, kQuantizationVersion);
  }
  KeyReader split(file, "split.");
  if (const int32_t parts = split.integer("count", 0, 65535, 1); parts > 1) {
    split.fail(ErrorCode::kUnsupported, "count",
               "the model is split over " + str(parts) + " files; merge them first");
  }
  // Other general.* and split.* keys describe the file, not the model: only failures count.
  for (KeyReader* reader : {&general, &split}) {
    if (Status status = reader->failure(); !status.ok()) return status;
  }
  return {};
}

void read_attention(KeyReader& keys, ModelSpec& spec) {
  spec.num_heads = keys.integer("attention.head_count", 1, kMaxHeads);
  spec.num_kv_heads = keys.integer("attention.head_count_kv", 1, kMaxHeads, spec.num_heads);
  if (spec.num_heads % spec.num_kv_heads != 0) {
    keys.fail(ErrorCode::kCorrupt, "attention.head_count_kv",
              str(spec.num_heads) + " query heads are not a multiple of " +
                  str(spec.num_kv_heads) + " KV heads");
  }
  if (!keys.has("attention.key_length") && spec.hidden % spec.num_heads != 0) {
    keys.fail(ErrorCode::kCorrupt, "attention.head_count",
              "width " + str(spec.hidden) + " is not a multiple of " + str(spec.num_heads) +
                  " heads, and llama.attention.key_length is absent");
  }
  spec.head_dim =
      keys.integer("attention.key_length", 2, kMaxHeadDim, spec.hidden / spec.num_heads);
  if (spec.head_dim < 2 || spec.head_dim > kMaxHeadDim || spec.head_dim % 2 != 0) {
    keys.fail(ErrorCode::kCorrupt, "attention.key_length",
              "heads of width " + str(spec.head_dim) + ": it must be even, 2 to " +
                  str(kMaxHeadDim));
  }
  const int32_t value_length =
      keys.integer("attention.value_length", 1, kMaxHeadDim, spec.head_dim);
  if (value_length != spec.head_dim) {
    keys.fail(ErrorCode::kUnsupported, "attention.value_length",
              "values of width " + str(value_length) + " beside keys of width " +
                  str(spec.head_dim) + " are not supported");
  }
  const int32_t window = keys.integer("attention.sliding_window", 0, kMaxContext, 0);
  if (window != 0 && window < spec.max_context) {
    keys.fail(ErrorCode::kUnsupported, "attention.sliding_window",
              "a sliding window of " + str(window) + " is not supported");
  }
  if (!keys.boolean("attention.causal", true)) {
    keys.fail(ErrorCode::kUnsupported, "attention.causal", "only causal attention is supported");
  }
}

// llama.rope.scale_linear is the older spelling of scaling.factor; 0 means none in both.
void read_rope(KeyReader& keys, ModelSpec& spec) {
  RopeSpec& rope = spec.rope;
  rope.base = keys.real("rope.freq_base", kMinRopeBase, kMaxRopeBase, 10000.0);
  const int32_t rotated = keys.integer("rope.dimension_count", 1, kMaxHeadDim, spec.head_dim);
  if (rotated != spec.head_dim) {
    keys.fail(ErrorCode::kUnsupported, "rope.dimension_count",
              "rope over " + str(rotated) + " of " + str(spec.head_dim) +
                  " values of a head is not supported");
  }
  const double older = keys.real("rope.scale_linear", 0.0, kMaxRopeFactor, 0.0);
  const double factor = keys.real("rope.scaling.factor", 0.0, kMaxRopeFactor, older);
  const std::string kind = keys.text("rope.scaling.type", factor > 0 ? "linear" : "none");
  keys.integer("rope.scaling.original_context_length", 0, kMaxContext, 0);
  keys.boolean("rope.scaling.finetuned", false);
  if (keys.real("rope.scaling.attn_factor", 0.0, kMaxRopeFactor, 1.0) != 1.0) {
    keys.fail(ErrorCode::kUnsupported, "rope.scaling.attn_factor",
              "an attention factor other than 1 is not supported");
  }
  if (kind == "none") {
    if (factor > 0 && factor != 1.0) {
      keys.fail(ErrorCode::kCorrupt, "rope.scaling.factor",
                "rope scaling is 'none' but has a factor");
    }
    return;
  }
  if (kind != "linear") {
    keys.fail(ErrorCode::kUnsupported, "rope.scaling.type",
              "rope scaling " + format::quoted(kind) +
                  " is not supported (supported: none, linear)");
    return;
  }
  if (factor < 1.0) {
    keys.fail(ErrorCode::kCorrupt, "rope.scaling.factor",
              "linear rope scaling needs a factor of at least 1");
    return;
  }
  if (factor == 1.0) return;  // the same angles as none
  rope.scaling = RopeScaling::kLinear;
  rope.factor = factor;
}

// Three places may tell the vocabulary's size; the embedding is the one that is computed with.
void read_vocab(const format::GgufFile& file, KeyReader& keys, ModelSpec& spec) {
  const format::TensorInfo* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr) {
    spec.vocab = keys.integer("vocab_size", 1, kMaxVocab, 1);
    return;  // check_tensors() names what is missing
  }
  if (embedding->num_rows() > kMaxVocab) {
    keys.fail(ErrorCode::kCorrupt, "vocab_size",
              "tensor 'token_embd.weight' has " + std::to_string(embedding->num_rows()) +
                  " rows, at most " + str(kMaxVocab) + " are allowed");
    return;
  }
  spec.vocab = static_cast<int32_t>(embedding->num_rows());
  const int32_t declared = keys.integer("vocab_size", 1, kMaxVocab, spec.vocab);
  if (declared != spec.vocab) {
    keys.fail(ErrorCode::kCorrupt, "vocab_size",
              "llama.vocab_size is " + str(declared) + ", tensor 'token_embd.weight' has " +
                  str(spec.vocab) + " rows");
  }
  const format::MetadataValue* tokens = file.find("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->num_elements() != static_cast<uint64_t>(spec.vocab)) {
    keys.fail(ErrorCode::kCorrupt, "vocab_size",
              "tokenizer.ggml.tokens has " + std::to_string(tokens->num_elements()) +
                  " tokens, tensor 'token_embd.weight' has " + str(spec.vocab) + " rows");
  }
}

Result<ModelSpec> read_llama(const format::GgufFile& file) {
  KeyReader keys(file, std::string(kLlama) + ".");
  ModelSpec spec;
  spec.architecture = kLlama;
  if (const auto name = file.string_at("general.name"); name.ok()) spec.name = *name;
  spec.num_layers = keys.integer("block_count", 1, kMaxLayers);
  spec.hidden = keys.integer("embedding_length", 1, kMaxHidden);
  spec.ffn = keys.integer("feed_forward_length", 1, kMaxFfn);
  spec.max_context = keys.integer("context_length", 1, kMaxContext);
  spec.rms_eps = keys.real("attention.layer_norm_rms_epsilon", kMinEps, kMaxEps);
  read_attention(keys, spec);
  read_rope(keys, spec);
  read_vocab(file, keys, spec);
  for (const char* key : {"expert_count", "expert_used_count"}) {
    if (keys.integer(key, 0, kMaxFfn, 0) != 0) {
      keys.fail(ErrorCode::kUnsupported, key, "mixture-of-experts models are not supported yet");
    }
  }
  if (const std::string layout = keys.text("tensor_data_layout", kPermutedLayout);
      layout != kPermutedLayout) {
    keys.fail(ErrorCode::kUnsupported, "tensor_data_layout",
              "tensor data layout " + format::quoted(layout) + " is not supported");
  }
  spec.tied_head = file.find_tensor("output.weight") == nullptr;
  if (Status read = keys.finish(); !read.ok()) return read.error();
  return spec;
}

}  // namespace

const char* attention_kind_name(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::kMultiHead: return "MHA";
    case AttentionKind::kGroupedQuery: return "GQA";
    case AttentionKind::kMultiQuery: return "MQA";
  }
  return "unknown";
}

const char* rope_scaling_name(RopeScaling scaling) {
  return scaling == RopeScaling::kLinear ? "linear" : "none";
}

std::string supported_architectures() { return std::string(kLlama); }

Result<ModelSpec> read_spec(const format::GgufFile& file) {
  const auto located = [&file](Error error) {
    error.message = file.path() + ": " + error.message;
    return error;
  };
  if (Status general = check_general(file); !general.ok()) return located(general.error());
  Result<ModelSpec> spec = read_llama(file);
  if (!spec.ok()) return located(spec.error());
  if (Status tensors = check_tensors(*spec, file); !tensors.ok()) return located(tensors.error());
  return spec;
}

Result<int32_t> context_length(const ModelSpec& spec, int32_t wanted) {
  if (wanted == 0) return spec.max_context;
  if (wanted <= spec.max_context) return wanted;
  const std::string trained = std::to_string(spec.max_context);
  return Error{ErrorCode::kInvalidArgument,
               "model.max_context: " + std::to_string(wanted) + " is more than the " + trained +
                   " positions the model was trained for; write at most " + trained,
               "model.max_context"};
}

}  // namespace tandem::spec
