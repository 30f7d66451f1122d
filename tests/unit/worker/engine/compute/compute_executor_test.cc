#include "worker/engine/compute/compute_executor.h"

#include <gmock/gmock.h>

#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "comm/collective/factory/make_communicator.h"
#include "comm/runtime/thread_loop.h"
#include "kernels/backends/cpu_backend.h"
#include "model/format/gguf_file.h"
#include "model/spec/model_spec.h"
#include "tests/support/tiny_model.h"
#include "worker/engine/compute/warm_up.h"

namespace tandem::engine {
namespace {

constexpr int64_t kBlockSize = 16;

template <typename T>
T value_of(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}

support::TinyModel tiny_model() {
  return {.spec = support::tiny_spec(), .tokenizer_from = {}};
}

// The two threads of a worker: a loop thread of the test, and a compute thread.
class ComputeExecutorTest : public testing::Test {
 protected:
  ComputeExecutorTest() {
    support::write_tiny_model(folder_.file("tiny.gguf"), tiny_model());
    file_ = std::make_unique<format::GgufFile>(
        value_of(format::GgufFile::open(folder_.file("tiny.gguf"))));
    backend_ = backends::make_cpu_backend("auto", 1);
    comm_ = value_of(collective::make_communicator(1, *backend_));
    model_ = value_of(forward::Model::load(*file_, value_of(spec::read_spec(*file_)),
                                           {*backend_, *comm_},
                                           {.num_blocks = 64, .block_size = kBlockSize,
                                            .max_tokens = 64, .max_sequences = 8}));
  }
  ~ComputeExecutorTest() override {
    if (!loop_thread_.joinable()) return;
    loop_.post([this] { executor_->stop(); });
    compute_thread_.join();
    loop_.stop();
    loop_thread_.join();
  }

  void start(ComputeOptions options = {}) {
    executor_ = std::make_unique<ComputeExecutor>(*model_, loop_, options);
    compute_thread_ = std::thread([this] { executor_->run(); });
    loop_thread_ = std::thread([this] { loop_.run(); });
  }

  static StepPlan plan_of(std::vector<StepItem> items) {
    static uint64_t next = 1;
    StepPlan plan;
    plan.sequence_number = next++;
    plan.items = std::move(items);
    for (const StepItem& item : plan.items) {
      plan.num_tokens += static_cast<uint32_t>(item.tokens.size());
    }
    plan.hash = plan_hash(plan);
    return plan;
  }

  static StepItem item_of(std::vector<uint32_t> tokens, uint32_t begin, uint32_t first_block,
                          bool sample) {
    StepItem item;
    item.key = first_block;
    item.tokens = std::move(tokens);
    item.begin = begin;
    item.block_table = {BlockId{first_block}, BlockId{first_block + 1}};
    item.sample = sample;
    item.sampling.set_top_p(1);
    item.sampling.set_num_logprobs(-1);
    return item;
  }

  // Waits for the result, which arrives on the loop thread.
  StepResult run(StepPlan plan) {
    std::mutex mutex;
    std::condition_variable wake;
    std::optional<StepResult> result;
    loop_.post([&] {
      executor_->submit(std::move(plan), [&](StepResult r) {
        EXPECT_EQ(std::this_thread::get_id(), loop_thread_.get_id());
        std::lock_guard lock(mutex);
        result = std::move(r);
        wake.notify_one();
      });
    });
    std::unique_lock lock(mutex);
    wake.wait(lock, [&] { return result.has_value(); });
    return *std::move(result);
  }

  support::TemporaryDirectory folder_;
  ThreadLoop loop_;
  std::unique_ptr<format::GgufFile> file_;
  std::unique_ptr<ops::Backend> backend_;
  std::unique_ptr<collective::Communicator> comm_;
  std::unique_ptr<forward::Model> model_;
  std::unique_ptr<ComputeExecutor> executor_;
  std::thread compute_thread_;
  std::thread loop_thread_;
};

TEST_F(ComputeExecutorTest, ContinuesASequenceOverPlansAsInOnePlan) {
  start({.logits_digest = true});
  const StepResult whole = run(plan_of({item_of({5, 6, 7, 8}, 0, 0, true)}));
  const StepResult first = run(plan_of({item_of({5, 6}, 0, 4, false)}));
  const StepResult rest = run(plan_of({item_of({7, 8}, 2, 4, true)}));
  EXPECT_TRUE(first.samples[0].finite);
  EXPECT_FALSE(first.samples[0].sampled);
  ASSERT_TRUE(whole.samples[0].sampled);
  ASSERT_TRUE(rest.samples[0].sampled);
  EXPECT_EQ(whole.samples[0].token, rest.samples[0].token);
  EXPECT_NE(whole.samples[0].logits_digest, 0u);
  EXPECT_EQ(whole.samples[0].logits_digest, rest.samples[0].logits_digest);
}

TEST_F(ComputeExecutorTest, AnswersEveryItemOfAPlanInOrder) {
  start({.logits_digest = true});
  const StepResult alone = run(plan_of({item_of({9, 10, 11}, 0, 0, true)}));
  const StepPlan plan = plan_of({item_of({1, 2}, 0, 4, false), item_of({9, 10, 11}, 0, 8, true)});
  const StepResult both = run(plan);
  EXPECT_EQ(both.sequence_number, plan.sequence_number);
  ASSERT_EQ(both.samples.size(), 2u);
  EXPECT_FALSE(both.samples[0].sampled);
  EXPECT_EQ(both.samples[1].logits_digest, alone.samples[0].logits_digest);
  EXPECT_GT(both.took, Duration{});
}

TEST_F(ComputeExecutorTest, ReportsLogprobsOnlyWhenAsked) {
  start();
  StepItem asked = item_of({3, 4}, 0, 0, true);
  asked.sampling.set_num_logprobs(2);
  const StepResult result = run(plan_of({asked, item_of({3, 4}, 0, 4, true)}));
  EXPECT_EQ(result.samples[0].logprobs.top_size(), 2);
  EXPECT_LE(result.samples[0].logprobs.logprob(), 0);
  EXPECT_EQ(result.samples[0].logprobs.top(0).id(), result.samples[0].token);  // greedy: the best
  EXPECT_EQ(result.samples[1].logprobs.top_size(), 0);
  EXPECT_EQ(result.samples[0].logits_digest, 0u);  // not switched on
}

TEST_F(ComputeExecutorTest, AnItemThatMeetsNotANumberFailsAlone) {
  start();
  run(plan_of({item_of({3, 4}, 0, 0, false)}));
  for (std::byte& byte : executor_->block_bytes(BlockId{0})) byte = std::byte{0xFF};
  const StepResult result = run(plan_of({item_of({5}, 2, 0, true), item_of({5}, 0, 4, true)}));
  EXPECT_FALSE(result.samples[0].finite);
  EXPECT_FALSE(result.samples[0].sampled);
  EXPECT_TRUE(result.samples[1].finite);
  EXPECT_TRUE(result.samples[1].sampled);
}

// What a landing on another thread does between plans: the hand-off orders the accesses.
TEST_F(ComputeExecutorTest, BlocksMoveBetweenSequencesOutsideOfPlans) {
  start({.logits_digest = true});
  const StepResult whole = run(plan_of({item_of({5, 6, 7}, 0, 0, true)}));
  run(plan_of({item_of({5, 6}, 0, 4, false)}));
  std::mutex mutex;
  std::condition_variable wake;
  bool copied = false;
  loop_.post([&] {
    const std::span<std::byte> from = executor_->block_bytes(BlockId{4});
    const std::span<std::byte> to = executor_->block_bytes(BlockId{8});
    std::copy(from.begin(), from.end(), to.begin());
    std::lock_guard lock(mutex);
    copied = true;
    wake.notify_one();
  });
  {
    std::unique_lock lock(mutex);
    wake.wait(lock, [&] { return copied; });
  }
  const StepResult moved = run(plan_of({item_of({7}, 2, 8, true)}));
  EXPECT_EQ(moved.samples[0].logits_digest, whole.samples[0].logits_digest);
}

TEST_F(ComputeExecutorTest, ManyPlansInARow) {
  start();
  uint32_t token = 1;
  for (uint32_t i = 0; i < 2 * kBlockSize; ++i) {
    const StepResult result = run(plan_of({item_of({token}, i, 0, true)}));
    ASSERT_TRUE(result.samples[0].sampled);
    token = result.samples[0].token;
  }
}

TEST_F(ComputeExecutorTest, APlanWhoseHashIsWrongStopsTheRank) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  StepPlan plan = plan_of({item_of({1}, 0, 0, false)});
  plan.items[0].tokens[0] = 2;
  EXPECT_DEATH(
      {
        start();
        run(plan);
      },
      "plan_hash");
}

TEST_F(ComputeExecutorTest, PlansAfterStopAreThrownAway) {
  executor_ = std::make_unique<ComputeExecutor>(*model_, loop_, ComputeOptions{});
  executor_->stop();
  executor_->submit(plan_of({item_of({1}, 0, 0, false)}), [](StepResult) { FAIL(); });
  executor_->run();  // returns at once
}

TEST_F(ComputeExecutorTest, WarmUpTakesTime) {
  const SystemClock clock;
  const Result<Duration> per_token = warm_up(*model_, clock, 16);
  ASSERT_TRUE(per_token.ok());
  EXPECT_GT(*per_token, Duration{});
  EXPECT_TRUE(warm_up(*model_, clock, 1).ok());
  EXPECT_TRUE(warm_up(*model_, clock, 100000).ok());  // cut to what the model takes
}

TEST(WarmUp, RefusesAModelThatComputesNoNumbers) {
  support::TemporaryDirectory folder;
  support::GgufWriter writer = support::tiny_model_writer(tiny_model());
  support::WrittenTensor& norm = writer.tensor("output_norm.weight");
  for (std::byte& byte : norm.data) byte = std::byte{0xFF};
  support::write_file(folder.file("nan.gguf"), writer.bytes());
  const auto file = value_of(format::GgufFile::open(folder.file("nan.gguf")));
  const auto backend = backends::make_cpu_backend("auto", 1);
  const auto comm = value_of(collective::make_communicator(1, *backend));
  const auto model = value_of(forward::Model::load(
      file, value_of(spec::read_spec(file)), {*backend, *comm},
      {.num_blocks = 4, .block_size = kBlockSize, .max_tokens = 64, .max_sequences = 1}));
  const SystemClock clock;
  const Result<Duration> per_token = warm_up(*model, clock, 16);
  ASSERT_FALSE(per_token.ok());
  EXPECT_EQ(per_token.error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace tandem::engine
