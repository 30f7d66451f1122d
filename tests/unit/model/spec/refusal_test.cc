// Models that can't be served, each refused by name and numbers.

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/spec/model_spec.h"
#include "model/spec/tensor_list.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_model.h"

namespace tandem::spec {
namespace {

using support::GgufWriter;
using testing::HasSubstr;

class Refusal : public testing::Test {
 protected:
  Result<ModelSpec> read(GgufWriter writer) {
    const std::string path = directory_.file("model.gguf");
    support::write_file(path, writer.bytes());
    const Result<format::GgufFile> file = format::GgufFile::open(path);
    if (!file.ok()) return file.error();
    return read_spec(*file);
  }

  Result<ModelSpec> read(const ModelSpec& spec) {
    support::TinyModel model;
    model.spec = spec;
    return read(support::tiny_model_writer(model));
  }

  // The tiny model with one change.
  Result<ModelSpec> read_changed(const std::function<void(GgufWriter&)>& change) {
    support::TinyModel model;
    model.spec = support::tiny_spec();
    GgufWriter writer = support::tiny_model_writer(model);
    change(writer);
    return read(std::move(writer));
  }

  void expect_refused(const std::function<void(GgufWriter&)>& change, ErrorCode code,
                      const std::string& field, const std::string& part) {
    const Result<ModelSpec> spec = read_changed(change);
    ASSERT_FALSE(spec.ok()) << "loaded, expected: " << part;
    EXPECT_EQ(spec.error().code, code) << spec.error().message;
    EXPECT_EQ(spec.error().field, field) << spec.error().message;
    EXPECT_THAT(spec.error().message, HasSubstr(part));
    EXPECT_THAT(spec.error().message, HasSubstr("model.gguf: "));
  }

  void expect_key(const std::string& key, uint32_t value, ErrorCode code,
                  const std::string& part) {
    expect_refused([&](GgufWriter& writer) { set_uint(writer, key, value); }, code, key, part);
  }
  void expect_float(const std::string& key, float value, const std::string& part) {
    expect_refused(
        [&](GgufWriter& writer) {
          writer.drop_key(key);
          writer.add_float(key, value);
        },
        ErrorCode::kCorrupt, key, part);
  }

  static void set_uint(GgufWriter& writer, const std::string& key, uint32_t value) {
    if (writer.has_key(key)) writer.drop_key(key);
    writer.add_uint(key, value);
  }

  support::TemporaryDirectory directory_;
};

TEST_F(Refusal, TheTinyModelItselfReadsBack) {
  const Result<ModelSpec> spec = read(support::tiny_spec());
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(*spec, support::tiny_spec());
}

TEST_F(Refusal, EveryAttentionKindReads) {
  for (const int32_t kv_heads : {4, 2, 1}) {
    ModelSpec wanted = support::tiny_spec();
    wanted.num_kv_heads = kv_heads;
    wanted.tied_head = kv_heads == 2;
    const Result<ModelSpec> spec = read(wanted);
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    EXPECT_EQ(*spec, wanted);
  }
}

TEST_F(Refusal, WidthOfHeadsMayDifferFromHidden) {
  ModelSpec wanted = support::tiny_spec();
  wanted.head_dim = 24;
  const Result<ModelSpec> spec = read(wanted);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->q_width(), 96);
}

TEST_F(Refusal, Architecture) {
  expect_refused(
      [](GgufWriter& writer) {
        writer.drop_key("general.architecture");
        writer.add_string("general.architecture", "qwen3");
      },
      ErrorCode::kUnsupported, "general.architecture",
      "architecture 'qwen3' is not supported (supported: llama)");
  expect_refused([](GgufWriter& writer) { writer.drop_key("general.architecture"); },
                 ErrorCode::kNotFound, "general.architecture", "is missing");
}

TEST_F(Refusal, KindOfFile) {
  expect_refused([](GgufWriter& w) { w.add_string("general.type", "adapter"); },
                 ErrorCode::kUnsupported, "general.type", "'adapter'");
  expect_refused([](GgufWriter& w) { w.add_uint("split.count", 3); }, ErrorCode::kUnsupported,
                 "split.count", "split over 3 files");
  expect_refused([](GgufWriter& w) { w.add_uint("general.quantization_version", 1); },
                 ErrorCode::kCorrupt, "general.quantization_version", "must be 2 to 2");
}

TEST_F(Refusal, MissingKeys) {
  for (const char* key : {"llama.block_count", "llama.embedding_length", "llama.context_length",
                          "llama.feed_forward_length", "llama.attention.head_count",
                          "llama.attention.layer_norm_rms_epsilon"}) {
    expect_refused([key](GgufWriter& writer) { writer.drop_key(key); }, ErrorCode::kNotFound, key,
                   "is missing");
  }
}

TEST_F(Refusal, DefaultsOfAbsentKeys) {
  const Result<ModelSpec> spec = read_changed([](GgufWriter& writer) {
    for (const char* key : {"llama.attention.key_length", "llama.attention.value_length",
                            "llama.rope.dimension_count", "llama.rope.freq_base",
                            "llama.vocab_size"}) {
      writer.drop_key(key);
    }
  });
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(*spec, support::tiny_spec());
}

TEST_F(Refusal, NumbersOutOfRange) {
  expect_key("llama.block_count", 0, ErrorCode::kCorrupt, "is 0, it must be 1 to 1024");
  expect_key("llama.block_count", ~0u, ErrorCode::kCorrupt, "is 4294967295, it must be");
  expect_key("llama.embedding_length", 0, ErrorCode::kCorrupt, "it must be 1 to");
  expect_key("llama.feed_forward_length", 1u << 31, ErrorCode::kCorrupt, "it must be 1 to");
  expect_key("llama.context_length", 0, ErrorCode::kCorrupt, "it must be 1 to");
  expect_key("llama.attention.head_count", 0, ErrorCode::kCorrupt, "it must be 1 to");
  expect_key("llama.attention.head_count_kv", 0, ErrorCode::kCorrupt, "it must be 1 to");
  expect_key("llama.attention.key_length", 15, ErrorCode::kCorrupt, "15: it must be even");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float eps : {0.0f, -1e-5f, 1.0f, nan, infinity}) {
    expect_float("llama.attention.layer_norm_rms_epsilon", eps, "it must be 1e-12 to 0.1");
  }
  for (const float base : {0.0f, -1.0f, 1e30f, nan, -infinity}) {
    expect_float("llama.rope.freq_base", base, "it must be 1 to 1e+12");
  }
}

TEST_F(Refusal, WrongTypes) {
  expect_refused(
      [](GgufWriter& writer) {
        writer.drop_key("llama.attention.head_count_kv");
        writer.add_raw("llama.attention.head_count_kv",
                       support::ByteWriter().put(uint32_t{9}).put(uint32_t{4}).put(uint64_t{2})
                           .put(uint32_t{2}).put(uint32_t{2}));
      },
      ErrorCode::kInvalidArgument, "llama.attention.head_count_kv",
      "must be an integer, it is array of uint32");
  expect_refused(
      [](GgufWriter& writer) {
        writer.drop_key("llama.rope.freq_base");
        writer.add_uint("llama.rope.freq_base", 10000);
      },
      ErrorCode::kInvalidArgument, "llama.rope.freq_base", "must be a float, it is uint32");
}

TEST_F(Refusal, HeadsThatDoNotDivide) {
  expect_key("llama.attention.head_count_kv", 3, ErrorCode::kCorrupt,
             "4 query heads are not a multiple of 3 KV heads");
  expect_refused(
      [](GgufWriter& writer) {
        writer.drop_key("llama.attention.key_length");
        set_uint(writer, "llama.attention.head_count", 6);
      },
      ErrorCode::kCorrupt, "llama.attention.head_count", "width 64 is not a multiple of 6 heads");
}

TEST_F(Refusal, FeaturesThisEngineHasNot) {
  expect_key("llama.attention.value_length", 32, ErrorCode::kUnsupported,
             "values of width 32 beside keys of width 16");
  expect_key("llama.rope.dimension_count", 8, ErrorCode::kUnsupported, "rope over 8 of 16 values");
  expect_key("llama.attention.sliding_window", 128, ErrorCode::kUnsupported,
             "sliding window of 128");
  expect_key("llama.expert_count", 8, ErrorCode::kUnsupported, "mixture-of-experts");
  expect_key("llama.surprise", 1, ErrorCode::kUnsupported, "might change what the model means");
  // A window as wide as the context changes nothing.
  EXPECT_TRUE(read_changed([](GgufWriter& w) { w.add_uint("llama.attention.sliding_window", 512); })
                  .ok());
}

TEST_F(Refusal, RopeScaling) {
  const auto scaled = [](const char* type, float factor) {
    return [=](GgufWriter& writer) {
      writer.add_string("llama.rope.scaling.type", type);
      writer.add_float("llama.rope.scaling.factor", factor);
    };
  };
  const Result<ModelSpec> linear = read_changed(scaled("linear", 4.0f));
  ASSERT_TRUE(linear.ok()) << linear.error().message;
  EXPECT_EQ(linear->rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(linear->rope.factor, 4.0);
  const Result<ModelSpec> older =
      read_changed([](GgufWriter& w) { w.add_float("llama.rope.scale_linear", 2.0f); });
  ASSERT_TRUE(older.ok()) << older.error().message;
  EXPECT_EQ(older->rope.factor, 2.0);
  const Result<ModelSpec> one = read_changed(scaled("linear", 1.0f));
  ASSERT_TRUE(one.ok()) << one.error().message;
  EXPECT_EQ(one->rope.scaling, RopeScaling::kNone);
  EXPECT_TRUE(read_changed(scaled("none", 1.0f)).ok());

  expect_refused(scaled("yarn", 4.0f), ErrorCode::kUnsupported, "llama.rope.scaling.type",
                 "rope scaling 'yarn' is not supported (supported: none, linear)");
  expect_refused(scaled("linear", 0.5f), ErrorCode::kCorrupt, "llama.rope.scaling.factor",
                 "at least 1");
  expect_refused(scaled("linear", std::nanf("")), ErrorCode::kCorrupt,
                 "llama.rope.scaling.factor", "it must be 0 to 10000");
  expect_refused(scaled("none", 4.0f), ErrorCode::kCorrupt, "llama.rope.scaling.factor",
                 "'none' but has a factor");
  expect_refused(
      [](GgufWriter& writer) {
        writer.add_tensor({.name = "rope_freqs.weight", .dims = {8},
                           .data = std::vector<std::byte>(32)});
      },
      ErrorCode::kUnsupported, "rope_freqs.weight", "Llama 3 rope scaling");
}

TEST_F(Refusal, Vocabulary) {
  expect_key("llama.vocab_size", 511, ErrorCode::kCorrupt,
             "llama.vocab_size is 511, tensor 'token_embd.weight' has 512 rows");
  const std::vector<std::string> tokens(100, "t");
  expect_refused([&](GgufWriter& w) { w.add_strings("tokenizer.ggml.tokens", tokens); },
                 ErrorCode::kCorrupt, "llama.vocab_size", "tokenizer.ggml.tokens has 100 tokens");
}

TEST_F(Refusal, EachMissingTensorIsNamed) {
  for (const ExpectedTensor& expected : expected_tensors(support::tiny_spec())) {
    const Result<ModelSpec> spec =
        read_changed([&](GgufWriter& writer) { writer.drop_tensor(expected.name); });
    ASSERT_FALSE(spec.ok()) << expected.name;
    EXPECT_EQ(spec.error().code, ErrorCode::kNotFound);
    EXPECT_EQ(spec.error().field, expected.name);
    EXPECT_THAT(spec.error().message, HasSubstr("tensor '" + expected.name + "' is missing"));
  }
}

TEST_F(Refusal, ExtraTensors) {
  const auto extra = [](const char* name) {
    return [name](GgufWriter& writer) {
      writer.add_tensor({.name = name, .dims = {64}, .data = std::vector<std::byte>(256)});
    };
  };
  expect_refused(extra("blk.0.attn_q.bias"), ErrorCode::kUnsupported, "blk.0.attn_q.bias",
                 "biases are not supported");
  expect_refused(extra("blk.2.attn_norm.weight"), ErrorCode::kUnsupported,
                 "blk.2.attn_norm.weight", "is not part of this model");
}

TEST_F(Refusal, ShapesThatContradictTheMetadata) {
  expect_refused([](GgufWriter& w) { w.tensor("blk.1.attn_k.weight").dims = {32, 64}; },
                 ErrorCode::kCorrupt, "blk.1.attn_k.weight",
                 "has shape [32, 64], the metadata say [64, 32]");
  expect_refused([](GgufWriter& w) { w.tensor("output_norm.weight").dims = {32}; },
                 ErrorCode::kCorrupt, "output_norm.weight",
                 "has shape [32], the metadata say [64]");
  expect_refused([](GgufWriter& w) { w.tensor("output_norm.weight").type_id = 1; },
                 ErrorCode::kUnsupported, "output_norm.weight", "norms must be F32");
  expect_refused([](GgufWriter& w) { set_uint(w, "llama.feed_forward_length", 128); },
                 ErrorCode::kCorrupt, "blk.0.ffn_gate.weight",
                 "has shape [64, 96], the metadata say [64, 128]");
}

// A GGUF file has no flag for it: the head is tied exactly when its tensor is absent.
TEST_F(Refusal, TiedHeadFollowsFromTheTensor) {
  ModelSpec untied = support::tiny_spec();
  untied.tied_head = false;
  const Result<ModelSpec> own = read(untied);
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_FALSE(own->tied_head);
}

// What people will try first: other families and types must be named, never called corrupt.
TEST(SharedModels, OtherFamiliesAndTypesAreNamed) {
  const char* root = std::getenv("TANDEM_SOURCE_DIR");
  const std::string folder =
      std::string(root != nullptr ? root : ".") + "/../shared/fixtures/gguf/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no models at " << folder;
  struct Case { const char* file; const char* part; };
  const Case cases[] = {
      {"qwen2-F32.gguf", "architecture 'qwen2' is not supported"},
      {"qwen3-Q4_0.gguf", "architecture 'qwen3' is not supported"},
      {"qwen3moe-Q8_0.gguf", "architecture 'qwen3moe' is not supported"},
      {"llama_k-Q3_K_M.gguf", "unsupported type Q6_K of tensor 'output.weight'"},
      {"llama_k-Q6_K.gguf", "unsupported type Q6_K of tensor 'output.weight'"},
  };
  for (const Case& c : cases) {
    const auto file = format::GgufFile::open(folder + c.file);
    const Result<ModelSpec> spec = file.ok() ? read_spec(*file) : Result<ModelSpec>(file.error());
    ASSERT_FALSE(spec.ok()) << c.file;
    EXPECT_EQ(spec.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(spec.error().message, HasSubstr(c.part));
  }
}

TEST(GoldenModels, EverySupportedTypeReads) {
  for (const char* type : {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1"}) {
    const auto file = format::GgufFile::open(support::golden_model_path(type));
    ASSERT_TRUE(file.ok()) << file.error().message;
    const Result<ModelSpec> spec = read_spec(*file);
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    EXPECT_EQ(spec->q_width(), 128);
  }
}

}  // namespace
}  // namespace tandem::spec
