#include "worker/engine/compute/compute_executor.h"

#include <optional>
#include <utility>
#include <vector>

#include "worker/sampling/sampler.h"

namespace tandem::engine {
namespace {

// One item in the model's types. The entry's views point into this, so it must stay where it is.
struct Entry {
  std::vector<int32_t> tokens;
  std::vector<uint32_t> block_table;

  explicit Entry(const StepItem& item) : tokens(item.tokens.begin(), item.tokens.end()) {
    block_table.reserve(item.block_table.size());
    for (BlockId block : item.block_table) block_table.push_back(block.value);
  }
};

sampling::SamplingParams params_of(const wire::Sampling& sampling) {
  return {.temperature = sampling.temperature(),
          .top_k = sampling.top_k(),
          .top_p = sampling.top_p(),
          .min_p = sampling.min_p(),
          .seed = sampling.seed()};
}

forward::StepEntry step_entry(const StepItem& item, const Entry& entry, bool logits_digest) {
  forward::StepEntry out{.tokens = entry.tokens,
                         .start_position = static_cast<int32_t>(item.begin),
                         .block_table = entry.block_table};
  if (!item.sample) return out;
  out.sample = true;
  out.params = params_of(item.sampling);
  out.num_logprobs = item.sampling.num_logprobs();
  out.digest = logits_digest;
  return out;
}

wire::TokenLogprobs logprobs_of(const sampling::SampleResult& result) {
  wire::TokenLogprobs logprobs;
  logprobs.set_logprob(result.logprob);
  for (const sampling::TokenLogprob& top : result.top_logprobs) {
    wire::Logprob& entry = *logprobs.add_top();
    entry.set_id(static_cast<uint32_t>(top.token));
    entry.set_logprob(top.logprob);
  }
  return logprobs;
}

StepSample sample_of(const StepItem& item, const forward::EntryOutput& output) {
  StepSample sample;
  sample.finite = output.finite && (!item.sample || output.sample.finite);
  if (!sample.finite || !item.sample) return sample;
  sample.sampled = true;
  sample.token = static_cast<uint32_t>(output.sample.token);
  sample.logits_digest = output.sample.logits_digest;
  if (item.sampling.num_logprobs() >= 0) sample.logprobs = logprobs_of(output.sample);
  return sample;
}

}  // namespace

ComputeExecutor::ComputeExecutor(forward::Model& model, EventLoop& loop, ComputeOptions options)
    : model_(model), loop_(loop), options_(options) {}

void ComputeExecutor::run() {
  while (std::optional<Job> job = jobs_.pop()) {
    StepResult result = execute(job->plan);
    loop_.post([done = std::move(job->done), result = std::move(result)]() mutable {
      done(std::move(result));
    });
  }
}

void ComputeExecutor::stop() {
  stopped_ = true;
  jobs_.close();
}

void ComputeExecutor::submit(StepPlan plan, Done done) {
  if (stopped_) return;
  CHECK(!plan.items.empty());
  CHECK(jobs_.push(Job{std::move(plan), std::move(done)}));
}

std::span<std::byte> ComputeExecutor::block_bytes(BlockId block) {
  return model_.block_bytes(block.value);
}

StepResult ComputeExecutor::execute(const StepPlan& plan) {
  // Ranks that disagree on a plan must not compute: their collectives would never meet.
  CHECK_EQ(plan_hash(plan), plan.hash);
  const TimePoint began = loop_.now();
  std::vector<Entry> entries(plan.items.begin(), plan.items.end());
  forward::StepBatch batch;
  batch.reserve(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    batch.push_back(step_entry(plan.items[i], entries[i], options_.logits_digest));
  }
  const forward::StepOutput output = model_.run(batch);
  CHECK_EQ(output.entries.size(), plan.items.size());
  StepResult result;
  result.sequence_number = plan.sequence_number;
  result.samples.reserve(plan.items.size());
  for (size_t i = 0; i < plan.items.size(); ++i) {
    result.samples.push_back(sample_of(plan.items[i], output.entries[i]));
  }
  result.took = loop_.now() - began;
  return result;
}

}  // namespace tandem::engine
