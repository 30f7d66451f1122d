#include "tests/support/tiny_model.h"

#include <bit>
#include <cmath>
#include <cstdlib>

#include "comm/runtime/check.h"
#include "comm/runtime/rng.h"
#include "model/spec/tensor_list.h"

namespace tandem::support {
namespace {

using format::TensorType;

// Uniform in [-1, 1).
float signed_unit(Rng& rng) {
  return static_cast<float>(static_cast<double>(rng.next() >> 40) / double{1 << 23} - 1.0);
}

uint16_t half_bits(float value) {
  return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
}

// Truncation is good enough: any bit pattern is a weight.
uint16_t bfloat_bits(float value) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
}

void put_block(ByteWriter& out, TensorType type, float amplitude, Rng& rng) {
  constexpr int kBlock = 32;
  // Blocks differ in scale by up to two.
  const float scale = amplitude * (0.75f + 0.25f * signed_unit(rng));
  switch (type) {
    case TensorType::kF32: out.put(amplitude * signed_unit(rng)); return;
    case TensorType::kF16: out.put(half_bits(amplitude * signed_unit(rng))); return;
    case TensorType::kBF16: out.put(bfloat_bits(amplitude * signed_unit(rng))); return;
    case TensorType::kQ8_0:
      out.put(half_bits(scale / 127));
      for (int i = 0; i < kBlock; ++i) out.put(static_cast<int8_t>(127 * signed_unit(rng)));
      return;
    case TensorType::kQ4_0: out.put(half_bits(scale / 8)); break;
    case TensorType::kQ4_1: out.put(half_bits(2 * scale / 15)).put(half_bits(-scale)); break;
  }
  for (int i = 0; i < kBlock / 2; ++i) out.put(static_cast<uint8_t>(rng.next() >> 56));
}

std::vector<std::byte> random_matrix(TensorType type, uint64_t in, uint64_t out_rows,
                                     float amplitude, Rng& rng) {
  const format::TensorTypeInfo& info = format::tensor_type_info(type);
  CHECK_EQ(in % info.block_elements, 0u);
  ByteWriter out;
  const uint64_t num_blocks = in / info.block_elements * out_rows;
  for (uint64_t i = 0; i < num_blocks; ++i) put_block(out, type, amplitude, rng);
  return out.bytes();
}

std::vector<std::byte> random_norm(uint64_t width, Rng& rng) {
  ByteWriter out;
  for (uint64_t i = 0; i < width; ++i) out.put(1.0f + 0.1f * signed_unit(rng));
  return out.bytes();
}

WrittenTensor random_tensor(const spec::ExpectedTensor& expected, TensorType type, Rng& rng) {
  WrittenTensor tensor;
  tensor.name = expected.name;
  tensor.dims = expected.shape;
  if (expected.shape.size() == 1) {
    tensor.data = random_norm(expected.shape[0], rng);
    return tensor;  // type 0 is F32
  }
  // Keeps the variance of a row's product near that of its input.
  const bool embedding = expected.name == "token_embd.weight";
  const float amplitude =
      embedding ? 1.0f : std::sqrt(3.0f / static_cast<float>(expected.shape[0]));
  tensor.type_id = static_cast<uint32_t>(type);
  tensor.data = random_matrix(type, expected.shape[0], expected.shape[1], amplitude, rng);
  return tensor;
}

void add_metadata(GgufWriter& writer, const spec::ModelSpec& spec) {
  const auto add = [&](const char* key, int32_t value) {
    writer.add_uint(std::string("llama.") + key, static_cast<uint32_t>(value));
  };
  writer.add_string("general.architecture", spec.architecture);
  writer.add_string("general.name", spec.name);
  add("block_count", spec.num_layers);
  add("context_length", spec.max_context);
  add("embedding_length", spec.hidden);
  add("feed_forward_length", spec.ffn);
  add("vocab_size", spec.vocab);
  add("attention.head_count", spec.num_heads);
  add("attention.head_count_kv", spec.num_kv_heads);
  add("attention.key_length", spec.head_dim);
  add("attention.value_length", spec.head_dim);
  add("rope.dimension_count", spec.head_dim);
  writer.add_float("llama.rope.freq_base", static_cast<float>(spec.rope.base));
  writer.add_float("llama.attention.layer_norm_rms_epsilon", static_cast<float>(spec.rms_eps));
  if (spec.rope.scaling == spec::RopeScaling::kLinear) {
    writer.add_string("llama.rope.scaling.type", "linear");
    writer.add_float("llama.rope.scaling.factor", static_cast<float>(spec.rope.factor));
  }
}

}  // namespace

spec::ModelSpec tiny_spec() {
  spec::ModelSpec spec;
  spec.architecture = "llama";
  spec.name = "tiny";
  spec.num_layers = 2;
  spec.hidden = 64;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 16;
  spec.ffn = 96;
  spec.vocab = 512;
  spec.max_context = 512;
  spec.rms_eps = 1e-5f;
  spec.tied_head = true;
  return spec;
}

GgufWriter tiny_model_writer(const TinyModel& model) {
  GgufWriter writer;
  add_metadata(writer, model.spec);
  if (!model.tokenizer_from.empty()) {
    const Result<format::GgufFile> source = format::GgufFile::open(model.tokenizer_from);
    CHECK(source.ok());
    for (const format::MetadataValue& value : source->metadata()) {
      if (value.key().starts_with("tokenizer.")) writer.add_copy(value);
    }
  }
  SplitMix64 rng(model.seed);
  for (const spec::ExpectedTensor& expected : spec::expected_tensors(model.spec)) {
    writer.add_tensor(random_tensor(expected, model.type, rng));
  }
  return writer;
}

void write_tiny_model(const std::string& path, const TinyModel& model) {
  write_file(path, tiny_model_writer(model).bytes());
}

std::string golden_model_path(const std::string& type) {
  const char* root = std::getenv("TANDEM_SOURCE_DIR");
  return std::string(root != nullptr ? root : ".") + "/tests/golden/gguf/llama-" + type + ".gguf";
}

}  // namespace tandem::support
