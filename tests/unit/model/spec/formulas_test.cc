#include "model/spec/formulas.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tiny_model.h"

namespace tandem::spec {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string real_model() {
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr ? home : "") +
         "/.cache/tandem/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

TEST(Formulas, AgreeWithSmolLm2) {
  if (!std::filesystem::exists(real_model())) GTEST_SKIP() << "no model at " << real_model();
  const Result<format::GgufFile> file = format::GgufFile::open(real_model());
  ASSERT_TRUE(file.ok()) << file.error().message;
  const Result<ModelSpec> spec = read_spec(*file);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(kv_bytes_per_token(*spec, KvDtype::kBf16), 23040u);
  EXPECT_EQ(kv_bytes_per_token(*spec, KvDtype::kF32), 46080u);
  EXPECT_EQ(parameter_count(*spec), 134515008u);
  EXPECT_TRUE(spec->tied_head);
  const std::vector<TypeTotal> totals = totals_by_type(*file);
  ASSERT_EQ(totals.size(), 3u);
  EXPECT_EQ(totals[0].num_tensors, 61u);  // F32
  EXPECT_EQ(totals[1].num_tensors, 210u);  // Q4_1
  EXPECT_EQ(totals[1].size_bytes, 66355200u);
  EXPECT_EQ(totals[2].num_tensors, 1u);  // Q8_0
  EXPECT_EQ(totals[2].size_bytes, 30081024u);
  EXPECT_EQ(weight_bytes_per_token(*file, *spec), 96576768u);
  EXPECT_THAT(tensor_parallel_degrees(*spec, 64), ElementsAre(1, 2, 3, 9));
}

TEST(Formulas, CountWhatTheTinyFileHolds) {
  const auto file = format::GgufFile::open(support::golden_model_path("F32"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  const Result<ModelSpec> spec = read_spec(*file);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  uint64_t values = 0;
  for (const format::TensorInfo& tensor : file->tensors()) values += tensor.num_elements();
  EXPECT_EQ(parameter_count(*spec), values);
  EXPECT_EQ(weight_bytes(*file), values * 4);
  // Its head is its own: of the embedding only one row is read.
  EXPECT_EQ(weight_bytes_per_token(*file, *spec), (values - 511 * 128) * 4);
  EXPECT_EQ(kv_bytes_per_token(*spec, KvDtype::kBf16), 2u * 3 * 2 * 32 * 2);
  EXPECT_EQ(kv_bytes_per_token_per_layer(*spec, KvDtype::kF32), 2u * 2 * 32 * 4);
  const uint64_t layer = 128 * 128 * 2 + 2 * 128 * 64 + 3 * 128 * 352;
  EXPECT_EQ(matmul_flops_per_token(*spec), 2 * (3 * layer + 512 * 128));
  EXPECT_EQ(attention_flops_per_token(*spec, 10), 4u * 3 * 128 * 10);
  EXPECT_EQ(flops_per_token(*spec, 10),
            matmul_flops_per_token(*spec) + attention_flops_per_token(*spec, 10));
}

TEST(Formulas, KvDtypeNamesRoundTrip) {
  for (const KvDtype dtype : {KvDtype::kF32, KvDtype::kBf16}) {
    EXPECT_EQ(parse_kv_dtype(kv_dtype_name(dtype)).value(), dtype);
  }
  const auto unknown = parse_kv_dtype("fp8");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().message, HasSubstr("'fp8' is not known (f32, bf16)"));
}

ModelSpec heads(int32_t query, int32_t kv) {
  ModelSpec spec = support::tiny_spec();
  spec.num_heads = query;
  spec.num_kv_heads = kv;
  return spec;
}

TEST(TensorParallel, DegreesFollowTheHeads) {
  EXPECT_THAT(tensor_parallel_degrees(heads(4, 2), 64), ElementsAre(1, 2, 4));
  EXPECT_THAT(tensor_parallel_degrees(heads(9, 3), 64), ElementsAre(1, 2, 3, 9));
  EXPECT_THAT(tensor_parallel_degrees(heads(8, 1), 64), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(tensor_parallel_degrees(heads(4, 4), 3), ElementsAre(1, 2, 3));
}

TEST(TensorParallel, RefusalNamesTheNumbers) {
  for (const int32_t tp : {0, -1, 3, 10}) {
    const Status refused = check_tensor_parallel(heads(10, 2), tp);
    if (tp == 10) {
      EXPECT_TRUE(refused.ok());  // each rank one query head, KV heads five times
      continue;
    }
    ASSERT_FALSE(refused.ok()) << tp;
    EXPECT_THAT(refused.error().message,
                HasSubstr("tp " + std::to_string(tp) + " can't split 10 query and 2 KV heads"));
  }
}

TEST(TensorParallel, BitExactUpToTheLeaves) {
  EXPECT_TRUE(tensor_parallel_is_bit_exact(heads(9, 3), 3));
  EXPECT_FALSE(tensor_parallel_is_bit_exact(heads(9, 3), 9));
  EXPECT_TRUE(tensor_parallel_is_bit_exact(heads(32, 16), 8));
  EXPECT_FALSE(tensor_parallel_is_bit_exact(heads(32, 16), 16));
}

}  // namespace
}  // namespace tandem::spec
