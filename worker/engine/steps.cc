// The step loop: plan, run, take the results.
#include <algorithm>
#include <deque>
#include <utility>

#include "comm/runtime/planted.h"
#include "worker/engine/engine.h"

namespace tandem::engine {
namespace {

constexpr double kPredictionMemory = 0.9;  // of the running mean of a token's cost

}  // namespace

void Engine::maybe_start_step() {
  if (plan_running_) return;
  std::vector<scheduler::Sequence> views;
  std::deque<scheduler::Range> decode_ranges;  // a deque: views point into it
  for (auto& [key, sequence] : sequences_) {
    if (sequence->doomed) continue;
    scheduler::Sequence view;
    view.key = key;
    view.solo = sequence->solo;
    view.started = sequence->started;
    view.plans_waited = sequence->plans_waited;
    if (sequence->phase == Phase::kDecode) {
      const uint32_t n = static_cast<uint32_t>(sequence->tokens.size());
      decode_ranges.push_back({n - 1, n});
      view.kind = scheduler::Kind::kDecode;
      view.todo = {&decode_ranges.back(), 1};
    } else if (sequence->phase == Phase::kPrefill) {
      view.kind = scheduler::Kind::kPrefill;
      view.todo = sequence->todo;
    } else {
      continue;
    }
    views.push_back(view);
  }
  if (views.empty()) return;
  scheduler::Plan plan = options_.plan({views}, options_.scheduler);
  CHECK(!plan.items.empty());
  StepPlan step;
  step.sequence_number = next_plan_++;
  step.num_tokens = plan.num_tokens;
  for (const scheduler::Sequence& view : views) ++sequences_.at(view.key)->plans_waited;
  for (const scheduler::WorkItem& work : plan.items) {
    step.items.push_back(make_item(*sequences_.at(work.key), work));
  }
  step.hash = plan_hash(step);
  running_items_ = std::move(plan.items);
  plan_running_ = true;
  plan_started_ = seams_.loop.now();
  const Duration predicted{static_cast<int64_t>(ns_per_token_ * step.num_tokens)};
  seams_.heartbeats.plan_started(plan_started_, predicted);
  seams_.executor.submit(std::move(step), [this, alive = std::weak_ptr<int>(alive_)](
                                              StepResult result) {
    if (!alive.expired()) on_step_done(std::move(result));
  });
}

StepItem Engine::make_item(Sequence& sequence, const scheduler::WorkItem& work) {
  StepItem item;
  item.key = sequence.key;
  item.begin = work.begin;
  item.tokens.assign(sequence.tokens.begin() + work.begin, sequence.tokens.begin() + work.end);
  const auto table = sequence.blocks.blocks();
  item.block_table.assign(table.begin(), table.end());
  const bool last = work.end == sequence.tokens.size();
  item.sample = last && !sequence.awaits_tail;
  if (item.sample) item.sampling = sequence.sampling;
  sequence.in_plan = true;
  sequence.started = true;
  sequence.plans_waited = 0;
  if (planted(Bug::kPublishBeforeComputed)) publish_ready(sequence, work.end);
  return item;
}

void Engine::on_step_done(StepResult result) {
  CHECK(plan_running_);
  CHECK_EQ(result.sequence_number + 1, next_plan_);
  CHECK_EQ(result.samples.size(), running_items_.size());
  plan_running_ = false;
  seams_.heartbeats.plan_finished();
  ++steps_;
  seams_.metrics.steps.add();
  seams_.metrics.step_seconds.observe(result.took);
  uint32_t num_tokens = 0;
  const std::vector<scheduler::WorkItem> items = std::move(running_items_);
  for (size_t i = 0; i < items.size(); ++i) {
    num_tokens += items[i].end - items[i].begin;
    Sequence& sequence = *sequences_.at(items[i].key);
    sequence.in_plan = false;
    count_computed(sequence, items[i]);
    const StepSample& sample = result.samples[i];
    if (sample.sampled) {
      seams_.metrics.tokens_generated.add();
      seams_.metrics.generation_tokens.add();
      sequence.counters.set_generated(sequence.counters.generated() + 1);
    }
    if (sequence.doomed) {
      remember_released(sequence.id, sequence.counters);
      if (sequence.answer_released) send_released(sequence.id, sequence.counters);
      erase(sequence);
      continue;
    }
    apply(sequence, items[i], sample);
  }
  const double per_token = static_cast<double>(result.took.count()) / std::max(1u, num_tokens);
  ns_per_token_ = std::max(per_token, kPredictionMemory * ns_per_token_ +
                                          (1 - kPredictionMemory) * per_token);
  flush_outbox();
  admit_waiting();
  update_heartbeat();
  maybe_start_step();
}

// Prompt tokens computed here; outputs of earlier attempts count as prompt of this leg.
void Engine::count_computed(Sequence& sequence, const scheduler::WorkItem& work) {
  const uint32_t end = std::min(work.end, sequence.num_inputs);
  if (work.begin >= end) return;
  const uint32_t computed = end - work.begin;
  sequence.counters.set_local_compute(sequence.counters.local_compute() + computed);
  seams_.metrics.prompt_tokens_by_source[telemetry::PromptSource::kLocalCompute].add(computed);
}

void Engine::apply(Sequence& sequence, const scheduler::WorkItem& work,
                   const StepSample& sample) {
  if (!sample.finite) {
    finish(sequence, wire::Finished::NON_FINITE,
           "the model produced NaN or infinite values for this request");
    return;
  }
  if (sequence.phase == Phase::kPrefill) {
    CHECK(!sequence.todo.empty() && sequence.todo.front().begin == work.begin);
    sequence.todo.front().begin = work.end;
    if (sequence.todo.front().begin == sequence.todo.front().end) {
      sequence.todo.erase(sequence.todo.begin());
    }
    ++sequence.num_chunks;
    sequence.last_chunk_at = seams_.loop.now();
  }
  publish_ready(sequence, sequence.phase == Phase::kDecode ? work.end
                                                           : computed_prefix(sequence));
  push_ready(sequence);
  if (sequence.phase == Phase::kPrefill && !sequence.todo.empty()) return;
  if (sequence.awaits_tail) {  // the first token came with the commit
    sequence.awaits_tail = false;
    sequence.phase = Phase::kDecode;
    return;
  }
  CHECK(sample.sampled);
  take_token(sequence, sample.token, sample.logits_digest, sample.logprobs);
  if (finish_if_over(sequence)) return;
  if (sequence.is_decode_leg()) {
    sequence.phase = Phase::kDecode;
    return;
  }
  sequence.phase = Phase::kSource;
  send_commit(sequence);
}

void Engine::take_token(Sequence& sequence, uint32_t token, uint64_t digest,
                        const wire::TokenLogprobs& logprobs) {
  sequence.tokens.push_back(token);
  sequence.digests.push_back(digest);
  sequence.logprobs.push_back(logprobs);
}

// True when the sequence has its last token; Finished is then on its way.
bool Engine::finish_if_over(Sequence& sequence) {
  if (sequence.outputs() == 0) return false;
  const uint32_t last = sequence.tokens.back();
  const auto is_last = [&](const std::vector<uint32_t>& ids) {
    return std::find(ids.begin(), ids.end(), last) != ids.end();
  };
  if (is_last(sequence.stop_ids) || (!sequence.ignore_eos && is_last(options_.eos_ids))) {
    finish(sequence, wire::Finished::STOP_ID, "");
    return true;
  }
  if (sequence.outputs() < sequence.max_tokens) return false;
  finish(sequence, wire::Finished::LENGTH, "");
  return true;
}

void Engine::finish(Sequence& sequence, wire::Finished::Reason reason, std::string message) {
  close_landing(sequence);
  sequence.phase = Phase::kDone;
  sequence.todo.clear();
  wire::Finished finished;
  finished.set_request(sequence.id.request.value);
  finished.set_attempt(sequence.id.attempt.value);
  finished.set_reason(reason);
  finished.set_num_tokens(sequence.outputs());
  finished.set_message(std::move(message));
  finished.set_prefill_leg(!sequence.is_decode_leg());
  sequence.finished = std::move(finished);
  flush_outbox();
}

// Positions [0, n) that are computed or received, while the prompt is worked on.
uint32_t Engine::computed_prefix(const Sequence& sequence) const {
  return sequence.todo.empty() ? sequence.num_inputs : sequence.todo.front().begin;
}

// Hashes of whole blocks, plus the partial last block of the inputs (its identity on a link).
void Engine::hash_blocks(Sequence& sequence) {
  const std::span<const uint32_t> tokens = sequence.tokens;
  while (sequence.hashes.size() * block_size() < tokens.size()) {
    const size_t at = sequence.hashes.size() * block_size();
    const wire::Hash128 parent = at == 0 ? chain_seed_ : sequence.hashes.back();
    const size_t n = std::min<size_t>(block_size(), tokens.size() - at);
    sequence.hashes.push_back(wire::chain_next(parent, tokens.subspan(at, n)));
  }
}

// Makes whole blocks within the first num_tokens positions visible to the prefix index.
void Engine::publish_ready(Sequence& sequence, uint32_t num_tokens) {
  if (!options_.prefix_cache) return;
  const auto table = sequence.blocks.blocks();
  const std::span<const uint32_t> tokens = sequence.tokens;
  while ((sequence.num_published + 1) * block_size() <= num_tokens) {
    const uint32_t i = sequence.num_published;
    const size_t at = size_t{i} * block_size();
    const wire::Hash128 parent = i == 0 ? chain_seed_ : sequence.hashes[i - 1];
    const auto block_tokens = tokens.subspan(at, block_size());
    // A block that was the partial last one of the inputs is whole now.
    if (sequence.hashes.size() <= i) sequence.hashes.resize(i + 1);
    sequence.hashes[i] = wire::chain_next(parent, block_tokens);
    pool_.publish(table[i], {parent, sequence.hashes[i], block_tokens});
    ++sequence.num_published;
  }
}

}  // namespace tandem::engine
