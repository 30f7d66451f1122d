// Tokens, endings and the accounting of generated = delivered + discarded.
#include <algorithm>
#include <utility>

#include "coordinator/coordinator.h"

namespace tandem::coordinator {

using request::Account;
using request::Phase;

void Coordinator::on_tokens(const topology::Instance& from, const wire::Tokens& tokens) {
  const std::string name = from.name;  // handlers below may change the membership
  const Incarnation incarnation = from.incarnation;
  wire::Envelope reply;
  for (const wire::SequenceTokens& sequence : tokens.sequences()) {
    accept(from, sequence, *reply.mutable_ack());
  }
  if (reply.ack().entries_size() > 0) send(name, incarnation, std::move(reply));
}

void Coordinator::accept(const topology::Instance& from, const wire::SequenceTokens& tokens,
                         wire::Ack& ack) {
  State* state = find_current(tokens.request(), tokens.attempt());
  if (state == nullptr) {
    metrics_.late_messages.add();
    return;
  }
  const RequestId id = state->id;
  Leg& leg = tokens.prefill_leg() ? state->prefill : state->decode;
  if (!leg.open || !from_leg(from, leg) || state->phase == Phase::kQueued) {
    metrics_.late_messages.add();
    return;
  }
  if (!deliver(*state, leg, tokens)) return;  // the observer ended the request
  wire::AckEntry& entry = *ack.add_entries();
  entry.set_request(id.value);
  entry.set_attempt(tokens.attempt());
  entry.set_next_index(static_cast<uint32_t>(state->ids.size()));
  if (tokens.prefill_leg()) {
    prefill_done(*state);
  } else if (state->phase != Phase::kDecoding) {
    // Any Tokens from the decode side prove the commit: the source lease has done its work.
    state->phase = Phase::kDecoding;
    state->resend_at = TimePoint::max();
    if (state->prefill.open) close_leg(*state, state->prefill, false);
    state->has_source = false;
    prefill_done(*state);
    stage_done(*state, telemetry::HandoverStage::kCommit);
  }
  complete_if_whole(*state);
}

// A gap in the journal is no failure: the leg's outbox still has what is missing.
void Coordinator::ask_resend(const State& state, const Leg& leg) {
  wire::Envelope envelope;
  wire::Resend& resend = *envelope.mutable_resend();
  resend.set_request(state.id.value);
  resend.set_attempt(state.attempt.value);
  resend.set_next_index(static_cast<uint32_t>(state.ids.size()));
  send(leg.instance, leg.incarnation, std::move(envelope));
}

// False when the request is gone afterwards.
bool Coordinator::deliver(State& state, Leg& leg, const wire::SequenceTokens& tokens) {
  const RequestId id = state.id;
  const uint32_t first = tokens.first_index();
  if (first > state.ids.size()) {
    ask_resend(state, leg);
    return true;
  }
  std::vector<request::TokenEvent> events;
  for (int i = 0; i < tokens.ids_size(); ++i) {
    const size_t index = first + static_cast<size_t>(i);
    if (index < state.ids.size()) {
      if (state.ids[index] != tokens.ids(i)) {
        ++num_divergences_;
        log_.error("replayed_token_differs", {{"request", id}, {"index", index},
                                              {"was", state.ids[index]}, {"is", tokens.ids(i)}});
      }
      continue;
    }
    request::TokenEvent event;
    event.index = static_cast<uint32_t>(index);
    event.id = tokens.ids(i);
    if (i < tokens.logits_digests_size()) event.logits_digest = tokens.logits_digests(i);
    if (i < tokens.logprobs_size()) {
      event.has_logprob = true;
      event.logprob = tokens.logprobs(i).logprob();
      for (const wire::Logprob& top : tokens.logprobs(i).top()) {
        event.top.push_back({top.id(), top.logprob()});
      }
    }
    state.ids.push_back(event.id);
    state.logits_digests.push_back(event.logits_digest);
    ++leg.num_new_ids;
    events.push_back(std::move(event));
  }
  if (tokens.has_counters()) state.counters = tokens.counters();
  if (events.empty()) return true;
  request::Trace& trace = state.trace;
  const TimePoint real = loop_.now();
  if (events.front().index == 0) {
    // The decode side repeats the first token: it may be faster than the one that sampled it.
    trace.prefill_instance =
        state.prefill.instance.empty() ? leg.instance : state.prefill.instance;
    trace.ttft_s = to_seconds(real - state.submitted);
  } else {
    trace.longest_gap_s = std::max(trace.longest_gap_s, to_seconds(real - state.last_delivery));
  }
  state.last_delivery = real;
  if (!tokens.prefill_leg()) trace.decode_instance = leg.instance;
  state.observer->on_tokens(events);
  return find(id.value) != nullptr;
}

void Coordinator::on_finished(const topology::Instance& from, const wire::Finished& finished) {
  State* state = find_current(finished.request(), finished.attempt());
  if (state == nullptr) return;
  Leg& leg = finished.prefill_leg() ? state->prefill : state->decode;
  if (!leg.open || !from_leg(from, leg)) return;
  state->finished = finished;
  complete_if_whole(*state);
}

void Coordinator::complete_if_whole(State& state) {
  if (!state.finished) return;
  const wire::Finished& finished = *state.finished;
  if (finished.reason() == wire::Finished::ERROR ||
      finished.reason() == wire::Finished::NON_FINITE) {
    fail(state, {ErrorCode::kInternal, finished.message(), ""});
    return;
  }
  if (state.ids.size() < finished.num_tokens()) {
    const Leg& leg = finished.prefill_leg() ? state.prefill : state.decode;
    ask_resend(state, leg);
    return;
  }
  complete(state);
}

request::Ending Coordinator::ending_of(const State& state, uint32_t num_tokens) const {
  request::Ending ending;
  ending.usage.prompt_tokens = static_cast<uint32_t>(state.request.prompt.size());
  ending.usage.completion_tokens = num_tokens;
  ending.trace = state.trace;
  ending.trace.attempts = state.attempt.value + 1;
  ending.trace.epochs = state.num_epochs;
  ending.trace.logits_digest = request::chain_digests(state.logits_digests, num_tokens);
  const wire::LegCounters& counters = state.finished ? state.finished->counters()
                                                     : state.counters;
  ending.usage.cached_tokens = counters.cached_tokens();
  ending.trace.kv_bytes_moved = counters.bytes_received();
  ending.trace.hidden_share = counters.hidden_share();
  // A prefill leg's own compute is no decode side's.
  const bool decoded = !ending.trace.decode_instance.empty();
  ending.trace.decode_local_compute = decoded ? counters.local_compute() : 0;
  return ending;
}

void Coordinator::complete(State& state) {
  request::Ending ending = ending_of(state, static_cast<uint32_t>(state.ids.size()));
  ending.ok = true;
  ending.reason = state.finished->reason() == wire::Finished::STOP_ID
                      ? request::FinishReason::kStopId
                      : request::FinishReason::kLength;
  request::Observer* observer = state.observer;
  end(state, Account::Reason::kReplay, static_cast<uint32_t>(state.ids.size()), false);
  observer->on_end(ending);
}

void Coordinator::fail(State& state, Error error) {
  log_.warning("request_failed", {{"request", state.id}, {"why", error.message}});
  request::Ending ending = ending_of(state, static_cast<uint32_t>(state.ids.size()));
  ending.error = std::move(error);
  request::Observer* observer = state.observer;
  end(state, Account::Reason::kReplay, static_cast<uint32_t>(state.ids.size()), true);
  observer->on_end(ending);
}

request::Ending Coordinator::finish_early(RequestId id, uint32_t delivered) {
  State* state = find(id.value);
  if (state == nullptr) return {};
  request::Ending ending = ending_of(*state, delivered);
  ending.ok = true;
  end(*state, Account::Reason::kStop, delivered, true);
  return ending;
}

void Coordinator::cancel(RequestId id, uint32_t delivered) {
  State* state = find(id.value);
  if (state == nullptr) return;
  end(*state, Account::Reason::kCancel, delivered, true);
}

// Closes the legs and forgets the request. Calls no observer.
void Coordinator::end(State& state, Account::Reason reason, uint32_t delivered, bool cancelled) {
  const RequestId id = state.id;
  if (state.phase == Phase::kQueued) std::erase(queue_, id);
  if (state.prefill.open) close_leg(state, state.prefill, cancelled);
  // A prefill side that finished the request leaves a grant nobody needs.
  const bool unused = state.finished && state.finished->prefill_leg();
  if (state.decode.open) close_leg(state, state.decode, cancelled || unused);
  Account& account = accounts_.at(id);
  account.ended = true;
  account.delivered = delivered;
  account.reason = reason;
  metrics_.tokens_delivered.add(delivered);
  requests_.erase(id);
  settle(id);
  // A freed slot may let the next one in, but not inside the caller's own dispatching.
  loop_.post([this, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) try_dispatch();
  });
}

void Coordinator::close_leg(State& state, Leg& leg, bool cancel) {
  CHECK(leg.open);
  leg.open = false;
  ++accounts_.at(state.id).open_legs;
  const ClosingKey key{state.id, leg.attempt, leg.instance};
  Closing& closing = closing_[key];
  closing = Closing{leg.incarnation, cancel, leg.num_new_ids, {}};
  leg.num_new_ids = 0;
  if (!alive(leg)) {
    leg_reported(state.id, closing.num_new_ids);
    closing_.erase(key);
    return;
  }
  send_closing(key, closing);
}

// The instance is gone: what it told us is all that it ever generated.
void Coordinator::drop_leg(State& state, Leg& leg) {
  if (!leg.open) return;
  leg.open = false;
  accounts_.at(state.id).generated += leg.num_new_ids;
  leg.num_new_ids = 0;
}

void Coordinator::send_closing(const ClosingKey& key, Closing& closing) {
  wire::Envelope envelope;
  if (closing.cancel) {
    envelope.mutable_cancel()->set_request(key.request.value);
    envelope.mutable_cancel()->set_attempt(key.attempt.value);
  } else {
    envelope.mutable_release()->set_request(key.request.value);
    envelope.mutable_release()->set_attempt(key.attempt.value);
  }
  send(key.instance, closing.incarnation, std::move(envelope));
  closing.resend_at = now() + options_.deadlines.resend;
}

void Coordinator::on_released(const topology::Instance& from, const wire::Released& released) {
  const ClosingKey key{RequestId{released.request()}, Attempt{released.attempt()}, from.name};
  const auto found = closing_.find(key);
  if (found == closing_.end() || found->second.incarnation != from.incarnation) return;
  closing_.erase(found);
  leg_reported(key.request, released.counters().generated());
}

void Coordinator::leg_reported(RequestId id, uint32_t generated) {
  const auto found = accounts_.find(id);
  CHECK(found != accounts_.end());
  CHECK_GT(found->second.open_legs, 0u);
  --found->second.open_legs;
  found->second.generated += generated;
  settle(id);
}

void Coordinator::settle(RequestId id) {
  const Account& account = accounts_.at(id);
  if (!account.ended || account.open_legs > 0) return;
  if (account.generated > account.delivered) {
    using telemetry::DiscardReason;
    DiscardReason reason = DiscardReason::kReplay;
    if (account.reason == Account::Reason::kStop) reason = DiscardReason::kStop;
    if (account.reason == Account::Reason::kCancel) reason = DiscardReason::kCancel;
    metrics_.tokens_discarded[reason].add(account.generated - account.delivered);
  }
  accounts_.erase(id);
}

}  // namespace tandem::coordinator
