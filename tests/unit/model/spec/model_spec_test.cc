#include "model/spec/model_spec.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model/spec/describe.h"
#include "model/spec/formulas.h"
#include "model/spec/tensor_list.h"
#include "tests/support/tiny_model.h"

namespace tandem::spec {
namespace {

using testing::HasSubstr;

format::GgufFile open_golden(const std::string& type) {
  Result<format::GgufFile> file = format::GgufFile::open(support::golden_model_path(type));
  CHECK(file.ok());
  return std::move(file).value();
}

TEST(ModelSpec, ReadsTinyLlama) {
  const format::GgufFile file = open_golden("Q4_1");
  const Result<ModelSpec> spec = read_spec(file);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->architecture, "llama");
  EXPECT_EQ(spec->num_layers, 3);
  EXPECT_EQ(spec->hidden, 128);
  EXPECT_EQ(spec->num_heads, 4);
  EXPECT_EQ(spec->num_kv_heads, 2);
  EXPECT_EQ(spec->head_dim, 32);
  EXPECT_EQ(spec->ffn, 352);
  EXPECT_EQ(spec->vocab, 512);
  EXPECT_EQ(spec->max_context, 512);
  EXPECT_FLOAT_EQ(static_cast<float>(spec->rms_eps), 1e-5f);
  EXPECT_EQ(spec->rope.base, 10000.0);
  EXPECT_EQ(spec->rope.scaling, RopeScaling::kNone);
  EXPECT_FALSE(spec->tied_head);
  EXPECT_EQ(spec->attention_kind(), AttentionKind::kGroupedQuery);
  EXPECT_EQ(expected_tensors(*spec).size(), 30u);
}

TEST(Describe, SaysTheSameAsTextAndAsJson) {
  const format::GgufFile file = open_golden("Q4_1");
  const Result<ModelSpec> spec = read_spec(file);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  const std::string text = describe(file, *spec);
  EXPECT_THAT(text, HasSubstr("llama"));
  EXPECT_THAT(text, HasSubstr("GQA, 4 query and 2 KV heads of 32"));
  EXPECT_THAT(text, HasSubstr("768 as bf16"));
  const nlohmann::json object = nlohmann::json::parse(describe_json(file, *spec));
  EXPECT_EQ(object["architecture"], "llama");
  EXPECT_EQ(object["kv_bytes_per_token"]["bf16"], 768);
  EXPECT_EQ(object["kv_bytes_per_token"]["f32"], 1536);
  EXPECT_EQ(object["parameters"], parameter_count(*spec));
  EXPECT_EQ(object["model_digest"], file.digest());
  uint64_t bytes = 0;
  for (const auto& row : object["tensors"]) bytes += row["bytes"].get<uint64_t>();
  EXPECT_EQ(bytes, object["weight_bytes"].get<uint64_t>());
}

}  // namespace
}  // namespace tandem::spec
