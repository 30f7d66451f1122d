#pragma once
// What a decoder model is: shapes and constants read from a file's metadata, nothing computed from
// weights. A plain value: copied freely, any thread. A ModelSpec that read_spec() gave has passed
// every range and consistency check, and its tensors are all there with the shapes it implies.

#include <cstdint>
#include <string>
#include <string_view>

#include "comm/runtime/result.h"
#include "model/format/gguf_file.h"

namespace tandem::spec {

// How query heads share KV heads; follows from the two head counts.
enum class AttentionKind { kMultiHead, kGroupedQuery, kMultiQuery };
const char* attention_kind_name(AttentionKind kind);  // "MHA", "GQA", "MQA"

// Rope angles: position / factor * base^(-2i / head_dim). kNone has factor 1.
enum class RopeScaling { kNone, kLinear };
const char* rope_scaling_name(RopeScaling scaling);  // "none", "linear"

// Which values of a head one rope angle rotates. The `llama` architecture stores q and k permuted
// for neighbours (2i, 2i + 1).
enum class RopePairing { kNeighbours };

struct RopeSpec {
  double base = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;  // >= 1
  RopePairing pairing = RopePairing::kNeighbours;

  bool operator==(const RopeSpec&) const = default;
};

struct ModelSpec {
  std::string architecture;  // "llama"
  std::string name;          // general.name, may be empty
  int32_t num_layers = 0;
  int32_t hidden = 0;        // width of the residual stream
  int32_t num_heads = 0;     // query heads
  int32_t num_kv_heads = 0;  // divides num_heads
  int32_t head_dim = 0;      // even; num_heads * head_dim may differ from hidden
  int32_t ffn = 0;           // width of the gated MLP
  int32_t vocab = 0;
  int32_t max_context = 0;   // positions the model was trained for
  double rms_eps = 0;
  RopeSpec rope;
  bool tied_head = false;    // the output projection is token_embd.weight

  AttentionKind attention_kind() const {
    if (num_kv_heads == num_heads) return AttentionKind::kMultiHead;
    return num_kv_heads == 1 ? AttentionKind::kMultiQuery : AttentionKind::kGroupedQuery;
  }
  int32_t heads_per_kv_head() const { return num_heads / num_kv_heads; }
  int32_t q_width() const { return num_heads * head_dim; }
  int32_t kv_width() const { return num_kv_heads * head_dim; }

  bool operator==(const ModelSpec&) const = default;
};

// "llama": for messages.
std::string supported_architectures();

// Failures begin with the file's path; field names the key or tensor:
//   kUnsupported      architecture, rope scaling or another feature this engine has not; a
//                     metadata key of the architecture or a tensor that it doesn't know
//   kNotFound         a key or tensor is missing
//   kInvalidArgument  a key of the wrong type
//   kCorrupt          a value out of range, or values or shapes that contradict each other
Result<ModelSpec> read_spec(const format::GgufFile& file);

// Positions of a sequence: `wanted`, or what the model was trained for when wanted is 0.
// kInvalidArgument (field "model.max_context") when that is more than the model was trained for.
Result<int32_t> context_length(const ModelSpec& spec, int32_t wanted);

}  // namespace tandem::spec
