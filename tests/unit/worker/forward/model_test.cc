#include "worker/forward/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "comm/collective/factory/make_communicator.h"
#include "counting_backend.h"
#include "kernels/backends/cpu_backend.h"
#include "tests/support/tiny_model.h"

namespace tandem::forward {
namespace {

class ModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = directory_.file("tiny.gguf");
    support::TinyModel tiny;
    tiny.spec = support::tiny_spec();
    support::write_tiny_model(path, tiny);
    file_ = std::make_unique<format::GgufFile>(format::GgufFile::open(path).value());
    spec_ = spec::read_spec(*file_).value();
    std::iota(blocks_.begin(), blocks_.end(), 0U);
    std::iota(other_blocks_.begin(), other_blocks_.end(), 8U);
    for (int32_t i = 0; i < 40; ++i) tokens_.push_back(i * 37 % spec_.vocab);
  }

  Result<std::unique_ptr<Model>> load(const ModelOptions& options) {
    return Model::load(*file_, spec_, {backend_, *comm_}, options);
  }
  std::unique_ptr<Model> model() {
    auto loaded = load(options_);
    EXPECT_TRUE(loaded.ok());
    return std::move(loaded).value();
  }
  StepEntry entry(size_t first, size_t count, std::span<const uint32_t> blocks) const {
    return {.tokens = std::span(tokens_).subspan(first, count),
            .start_position = static_cast<int32_t>(first),
            .block_table = blocks,
            .sample = true,
            .params = {.temperature = 0},
            .digest = true};
  }

  support::TemporaryDirectory directory_;
  std::unique_ptr<format::GgufFile> file_;
  spec::ModelSpec spec_;
  testing::CountingBackend backend_{backends::make_cpu_backend("reference", 1)};
  std::unique_ptr<collective::Communicator> comm_ =
      std::move(collective::make_communicator(1, backend_)).value();
  const ModelOptions options_{.num_blocks = 16, .block_size = 16, .max_tokens = 64,
                              .max_sequences = 4, .max_context = 128};
  std::vector<int32_t> tokens_;
  std::vector<uint32_t> blocks_ = std::vector<uint32_t>(8);
  std::vector<uint32_t> other_blocks_ = std::vector<uint32_t>(8);
};

TEST_F(ModelTest, StepsAllocateNoDeviceMemory) {
  const auto m = model();
  const int before = backend_.num_allocations;
  for (size_t i = 0; i < 5; ++i) {
    m->run({entry(i * 8, 8, blocks_), entry(i, 1, other_blocks_)});
  }
  EXPECT_EQ(backend_.num_allocations, before);
}

TEST_F(ModelTest, BrokenRowFailsAloneAndIsReported) {
  const auto m = model();
  m->run({entry(0, 20, blocks_), entry(0, 20, other_blocks_)});
  const auto healthy = m->run({entry(20, 4, other_blocks_)}).entries[0];
  // A value of the first sequence's cache turns into NaN.
  const uint16_t nan = 0x7FC0;
  std::memcpy(m->block_bytes(blocks_[0]).data(), &nan, sizeof nan);
  const StepOutput out = m->run({entry(20, 4, blocks_), entry(20, 4, other_blocks_)});
  EXPECT_FALSE(out.entries[0].finite);
  EXPECT_EQ(out.entries[0].sample.token, -1);
  EXPECT_TRUE(out.entries[1].finite);
  EXPECT_EQ(out.entries[1].sample.logits_digest, healthy.sample.logits_digest);
  EXPECT_EQ(out.entries[1].sample.token, healthy.sample.token);
}

TEST_F(ModelTest, SamplesOnlyWhereAsked) {
  const auto m = model();
  StepEntry silent = entry(0, 8, blocks_);
  silent.sample = false;
  StepEntry logits = entry(0, 3, other_blocks_);
  logits.sample = false;
  logits.return_logits = ReturnLogits::kAll;
  const StepOutput out = m->run({silent, logits, entry(8, 2, blocks_)});
  EXPECT_EQ(out.entries[0].sample.token, -1);
  EXPECT_TRUE(out.entries[0].logits.empty());
  EXPECT_EQ(out.entries[1].logits.size(), 3U * static_cast<size_t>(spec_.vocab));
  EXPECT_GE(out.entries[2].sample.token, 0);
}

TEST_F(ModelTest, NoisePositionIsTheAbsoluteTokenIndex) {
  const auto m = model();
  StepEntry whole = entry(0, 30, blocks_);
  whole.params = {.temperature = 5.0F, .seed = 3};
  StepEntry tail = entry(29, 1, blocks_);
  tail.params = whole.params;
  const auto first = m->run({whole}).entries[0].sample;
  const auto again = m->run({tail}).entries[0].sample;
  EXPECT_EQ(first.token, again.token);
  EXPECT_EQ(first.logits_digest, again.logits_digest);
}

// [layer][K|V][kv_head][tile]: a token's first K value lies at the head of its block.
TEST_F(ModelTest, BlockBytesAreTheStoredKv) {
  const auto m = model();
  const auto is_zero = [&](uint32_t block) {
    const auto bytes = m->block_bytes(block);
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
  };
  EXPECT_EQ(static_cast<int64_t>(m->block_bytes(0).size()), m->layout().block_bytes());
  m->run({entry(0, 17, other_blocks_)});
  EXPECT_TRUE(is_zero(0));
  EXPECT_FALSE(is_zero(8));
  EXPECT_FALSE(is_zero(9));
  EXPECT_TRUE(is_zero(10));
}

TEST_F(ModelTest, RefusesOptionsByField) {
  const auto field_of = [this](auto change) {
    ModelOptions options = options_;
    change(options);
    const auto loaded = load(options);
    return loaded.ok() ? std::string("accepted") : loaded.error().field;
  };
  EXPECT_EQ(field_of([](ModelOptions& o) { o.num_blocks = 0; }), "num_blocks");
  EXPECT_EQ(field_of([](ModelOptions& o) { o.block_size = 24; }), "block_size");
  EXPECT_EQ(field_of([](ModelOptions& o) { o.kv_dtype = tensor::DType::kQ8_0; }), "kv_dtype");
  EXPECT_EQ(field_of([](ModelOptions& o) { o.max_tokens = 0; }), "max_tokens");
  EXPECT_EQ(field_of([](ModelOptions& o) { o.max_sequences = 0; }), "max_sequences");
  EXPECT_EQ(field_of([](ModelOptions& o) { o.max_logit_rows = -1; }), "max_logit_rows");
  EXPECT_EQ(field_of([](ModelOptions& o) { o.max_context = 1 << 20; }), "max_context");
  EXPECT_EQ(field_of([](ModelOptions&) {}), "accepted");
}

}  // namespace
}  // namespace tandem::forward
