#include "worker/weights/load_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backends/cpu_backend.h"
#include "tests/support/tiny_model.h"

namespace tandem::weights {
namespace {

class LoadWeightsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    spec_ = support::tiny_spec();
    spec_.tied_head = false;
    spec_.vocab = 8192;
    const std::string path = directory_.file("tiny.gguf");
    support::TinyModel tiny;
    tiny.spec = spec_;
    tiny.type = format::TensorType::kQ4_1;
    support::write_tiny_model(path, tiny);
    auto file = format::GgufFile::open(path);
    ASSERT_TRUE(file.ok()) << file.error().message;
    file_ = std::make_unique<format::GgufFile>(std::move(file).value());
  }

  Result<ModelWeights> load(const spec::ModelSpec& spec, const RankPosition& position = {}) {
    return load_weights(*file_, spec, make_shard_plan(spec, position).value(), *backend_,
                        [this](const LoadProgress& p) { progress_.push_back(p.done_bytes); });
  }

  support::TemporaryDirectory directory_;
  spec::ModelSpec spec_;
  std::unique_ptr<format::GgufFile> file_;
  std::unique_ptr<ops::Backend> backend_ = backends::make_cpu_backend("reference", 1);
  std::vector<int64_t> progress_;
};

TEST_F(LoadWeightsTest, TakesEveryTensorAndReportsProgress) {
  const auto weights = load(spec_);
  ASSERT_TRUE(weights.ok()) << weights.error().message;
  EXPECT_EQ(weights->layers.size(), 2U);
  EXPECT_EQ(weights->layers[0].q->rows(), spec_.q_width());
  EXPECT_EQ(weights->layers[0].k->rows(), spec_.kv_width());
  ASSERT_EQ(weights->layers[1].down.size(), 1U);
  EXPECT_EQ(weights->layers[1].down[0].matrix->cols(), spec_.ffn);
  EXPECT_EQ(weights->streamed_bytes, weights->matrix_bytes - weights->embedding->size_bytes());
  EXPECT_EQ(progress_.size(), file_->tensors().size());
  EXPECT_TRUE(std::is_sorted(progress_.begin(), progress_.end()));
}

TEST_F(LoadWeightsTest, LeftOverTensorFailsByName) {
  spec_.num_layers = 1;
  const auto weights = load(spec_);
  ASSERT_FALSE(weights.ok());
  EXPECT_EQ(weights.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(weights.error().message.find("blk.1."), std::string::npos) << weights.error().message;
}

TEST_F(LoadWeightsTest, MissingTensorFailsByName) {
  spec_.num_layers = 3;
  const auto weights = load(spec_);
  ASSERT_FALSE(weights.ok());
  EXPECT_EQ(weights.error().code, ErrorCode::kNotFound);
  EXPECT_NE(weights.error().message.find("blk.2.attn_norm"), std::string::npos);
}

// A stage or a rank loads its part and still accounts for every tensor.
TEST_F(LoadWeightsTest, PartsOfRanksAddUp) {
  const auto whole = load(spec_);
  int64_t matrix_bytes = 0;
  for (int32_t stage = 0; stage < 2; ++stage) {
    for (int32_t rank = 0; rank < 2; ++rank) {
      const auto part = load(spec_, {.tp_rank = rank, .tp = 2, .stage = stage, .pp = 2});
      ASSERT_TRUE(part.ok()) << part.error().message;
      EXPECT_EQ(part->layers.size(), 1U);
      EXPECT_EQ(part->layers[0].q->rows(), spec_.q_width() / 2);
      EXPECT_EQ(part->embedding != nullptr, stage == 0);
      EXPECT_EQ(part->output != nullptr, stage == 1);
      matrix_bytes += part->matrix_bytes;
    }
  }
  EXPECT_EQ(matrix_bytes, whole->matrix_bytes);
}

}  // namespace
}  // namespace tandem::weights
