// The outbox: a cursor over each sequence's own tokens, and Finished until it is released.
#include <algorithm>
#include <utility>

#include "comm/runtime/planted.h"
#include "worker/engine/engine.h"

namespace tandem::engine {
namespace {

constexpr size_t kMaxReleasedKept = 4096;

}  // namespace

// One message for everything that is new; a Finished follows its last token.
void Engine::flush_outbox() {
  wire::Envelope envelope;
  std::vector<Sequence*> over;
  for (auto& [key, sequence] : sequences_) {
    if (sequence->doomed) continue;
    if (sequence->finished && sequence->finished_sent_at == TimePoint{}) {
      over.push_back(sequence.get());
    }
    if (sequence->sent >= sequence->outputs()) continue;
    wire::SequenceTokens& tokens = *envelope.mutable_tokens()->add_sequences();
    tokens.set_request(sequence->id.request.value);
    tokens.set_attempt(sequence->id.attempt.value);
    tokens.set_first_index(sequence->sent);
    tokens.set_prefill_leg(!sequence->is_decode_leg());
    if (sequence->sent == sequence->base) *tokens.mutable_counters() = sequence->counters;
    for (uint32_t index = sequence->sent; index < sequence->outputs(); ++index) {
      tokens.add_ids(sequence->tokens[sequence->prompt_length + index]);
      const uint32_t at = index - sequence->base;
      if (sequence->digests[at] != 0) tokens.add_logits_digests(sequence->digests[at]);
      if (sequence->sampling.num_logprobs() >= 0) {
        *tokens.add_logprobs() = sequence->logprobs[at];
      }
    }
    sequence->sent = sequence->outputs();
    sequence->sent_at = now();
  }
  if (envelope.tokens().sequences_size() > 0) send(std::move(envelope));
  for (Sequence* sequence : over) send_finished(*sequence);
}

void Engine::send_finished(Sequence& sequence) {
  wire::Envelope envelope;
  *envelope.mutable_finished() = *sequence.finished;
  envelope.mutable_finished()->set_attempt(sequence.id.attempt.value);
  *envelope.mutable_finished()->mutable_counters() = sequence.counters;
  sequence.finished_sent_at = now();
  send(std::move(envelope));
}

void Engine::resend_due() {
  const TimePoint limit = now() - options_.deadlines.resend;
  for (auto& [key, sequence] : sequences_) {
    if (sequence->acked < sequence->sent && sequence->sent_at <= limit) {
      rewind(*sequence, sequence->acked);
    }
    if (sequence->finished && sequence->finished_sent_at <= limit) {
      sequence->finished_sent_at = TimePoint{};
    }
  }
  flush_outbox();
}

// Moves the cursor back to what the coordinator has.
void Engine::rewind(Sequence& sequence, uint32_t next_index) {
  if (planted(Bug::kLoseResendCursor)) return;
  sequence.sent = std::clamp(next_index, sequence.base, sequence.outputs());
}

void Engine::on_ack(const wire::Ack& ack) {
  for (const wire::AckEntry& entry : ack.entries()) {
    Sequence* sequence = find({RequestId{entry.request()}, Attempt{entry.attempt()}});
    if (sequence == nullptr) continue;
    sequence->acked = std::max(sequence->acked, std::min(entry.next_index(), sequence->sent));
  }
}

void Engine::on_resend(const wire::Resend& resend) {
  const SequenceId id{RequestId{resend.request()}, Attempt{resend.attempt()}};
  Sequence* sequence = find(id);
  if (sequence == nullptr) {
    send_nack(id);
    return;
  }
  rewind(*sequence, resend.next_index());
  if (sequence->finished) sequence->finished_sent_at = TimePoint{};
  flush_outbox();
}

// Release and Cancel: let go, and tell what was generated. Both are repeated until answered.
void Engine::on_release(const SequenceId& id) {
  Sequence* sequence = find(id);
  if (sequence == nullptr) {
    // A source whose Retarget got lost still has its older attempt.
    for (auto& [key, other] : sequences_) {
      if (other->id.request == id.request && other->id.attempt < id.attempt &&
          !other->is_decode_leg() && !other->doomed) {
        sequence = other.get();
      }
    }
  }
  if (sequence == nullptr) {
    for (const auto& [key, other] : sequences_) {
      if (other->doomed && other->answer_released && other->id == id) return;  // soon
    }
    const auto found = released_.find(id);
    send_released(id, found == released_.end() ? wire::LegCounters{} : found->second);
    return;
  }
  if (sequence->in_plan) {
    sequence->answer_released = true;
    by_id_.erase(sequence->id);
    sequence->id = id;
    let_go(*sequence);
    return;
  }
  const wire::LegCounters counters = sequence->counters;
  remember_released(id, counters);
  let_go(*sequence);
  send_released(id, counters);
  admit_waiting();
}

void Engine::send_released(const SequenceId& id, const wire::LegCounters& counters) {
  wire::Envelope envelope;
  wire::Released& released = *envelope.mutable_released();
  released.set_request(id.request.value);
  released.set_attempt(id.attempt.value);
  *released.mutable_counters() = counters;
  send(std::move(envelope));
}

void Engine::remember_released(const SequenceId& id, const wire::LegCounters& counters) {
  if (released_.contains(id)) return;
  released_[id] = counters;
  released_order_.push_back(id);
  if (released_order_.size() > kMaxReleasedKept) {
    released_.erase(released_order_.front());
    released_order_.erase(released_order_.begin());
  }
}

}  // namespace tandem::engine
