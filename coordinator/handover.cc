// Queue, reserve, grant, prefill: the way of a request that nothing disturbs.
#include <algorithm>
#include <utility>

#include "coordinator/coordinator.h"

namespace tandem::coordinator {

using request::Phase;

namespace {

uint32_t blocks_for(uint64_t tokens, uint32_t block_size) {
  return static_cast<uint32_t>((tokens + block_size - 1) / block_size);
}

// A part of the blocks that makes another prefill cheaper than computing at the decode side.
constexpr uint32_t kWorthRegrantNumerator = 3;    // at least 3/4 of the blocks are missing
constexpr uint32_t kWorthRegrantDenominator = 4;

}  // namespace

// Tokens (prompt and output) that the largest pool of a live instance holds; 0 without one.
uint64_t Coordinator::largest_request() const {
  uint64_t largest = 0;
  for (const auto& [name, instance] : members_.instances()) {
    if (!instance.alive()) continue;
    const wire::Descriptor& d = instance.descriptor;
    largest = std::max<uint64_t>(largest, uint64_t{d.num_blocks()} * d.kv().block_size());
  }
  return largest;
}

Result<RequestId> Coordinator::submit(request::Request request, request::Observer& observer) {
  CHECK(!request.prompt.empty());
  CHECK_GE(request.max_tokens, 1u);
  if (draining_) return Error{ErrorCode::kUnavailable, "the cluster is draining", ""};
  const uint64_t need = request.prompt.size() + request.max_tokens;
  const uint64_t largest = largest_request();
  if (largest == 0) return Error{ErrorCode::kUnavailable, "no instance is ready", ""};
  if (need > largest) {
    return Error{ErrorCode::kInvalidArgument,
                 "prompt (" + std::to_string(request.prompt.size()) + " tokens) + max_tokens (" +
                     std::to_string(request.max_tokens) + ") = " + std::to_string(need) +
                     " tokens; the largest KV pool holds " + std::to_string(largest),
                 "max_tokens"};
  }
  if (queue_.size() >= options_.max_waiting) {
    return Error{ErrorCode::kExhausted,
                 "the queue is full (queue.max_waiting = " +
                     std::to_string(options_.max_waiting) + ")",
                 ""};
  }
  auto state = std::make_unique<State>();
  state->id = RequestId{(uint64_t{options_.coordinator_id} << 48) | next_request_++};
  state->request = std::move(request);
  state->observer = &observer;
  state->submitted = loop_.now();
  state->last_delivery = loop_.now();
  state->stage_began = loop_.now();
  state->deadline = now() + options_.deadlines.request;
  const RequestId id = state->id;
  accounts_[id] = {};
  queue_.push_back(id);
  requests_.emplace(id, std::move(state));
  metrics_.attempts.add();
  try_dispatch();
  return id;
}

void Coordinator::try_dispatch() {
  if (dispatching_) return;  // an observer or a failure called back into us
  dispatching_ = true;
  bool blocked = false;
  for (size_t i = 0; i < queue_.size();) {
    State& state = *requests_.at(queue_[i]);
    // Strictly in order: nobody overtakes a waiting request. But a source already holds the
    // prefill slot that those before it may be waiting for.
    const bool may_go = state.not_before <= now() && (!blocked || state.has_source);
    if (may_go && dispatch(state)) {
      queue_.erase(queue_.begin() + static_cast<ptrdiff_t>(i));
    } else {
      blocked = blocked || may_go;
      ++i;
    }
  }
  dispatching_ = false;
}

router::View Coordinator::view_for(const State& state) const {
  router::View view;
  const uint64_t need = state.request.prompt.size() + state.request.max_tokens;
  for (const auto& [name, instance] : members_.instances()) {
    router::InstanceView i;
    i.name = name;
    i.role = instance.role;
    i.takes_work = instance.takes_work();
    i.total_blocks = instance.descriptor.num_blocks();
    i.leased_blocks = instance.heartbeat.blocks().leased();
    if (instance.descriptor.kv().block_size() > 0) {
      view.blocks_needed = blocks_for(need, instance.descriptor.kv().block_size());
    }
    for (const auto& [id, other] : requests_) {
      if (other->holds_prefill_slot && other->prefill.instance == name) ++i.num_prefills;
      if (other->decode.open && other->decode.instance == name) ++i.num_decodes;
    }
    view.instances.push_back(std::move(i));
  }
  if (state.has_source) view.fixed_prefill = state.prefill.instance;
  return view;
}

void Coordinator::stage_done(State& state, telemetry::HandoverStage stage) {
  const TimePoint real = loop_.now();
  metrics_.handover[stage].observe(real - state.stage_began);
  state.stage_began = real;
}

bool Coordinator::dispatch(State& state) {
  if (state.has_source && !alive(state.prefill)) {
    drop_leg(state, state.prefill);
    state.has_source = false;
  }
  const auto route = options_.policy(view_for(state), options_.router);
  if (!route) return false;
  if (state.has_source && route->decode == state.prefill.instance) {
    // The source becomes the decode side: its blocks fall back to its prefix cache.
    close_leg(state, state.prefill, false);
    state.has_source = false;
  }
  const topology::Instance& decode = *members_.find(route->decode);
  state.decode = Leg{decode.name, decode.incarnation, state.attempt, true, 0};
  if (!state.has_source) {
    state.prefill = leg_at(route->prefill);
    state.holds_prefill_slot = true;
    state.base = static_cast<uint32_t>(state.ids.size());
    if (pair_closed(state.prefill, state.decode)) use_decode_side_as_prefill(state);
  }
  state.phase = Phase::kReserving;
  stage_done(state, telemetry::HandoverStage::kQueued);
  state.epoch = Epoch{0};
  state.reserved_base = state.base;
  send_reserve(state);
  return true;
}

bool Coordinator::pair_closed(const Leg& prefill, const Leg& decode) const {
  return closed_pairs_.contains({prefill.incarnation, decode.incarnation});
}

void Coordinator::use_decode_side_as_prefill(State& state) {
  state.prefill = leg_at(state.decode.instance);
}

// A leg that nobody was told of yet.
request::Leg Coordinator::leg_at(const std::string& instance) const {
  return Leg{instance, members_.find(instance)->incarnation, Attempt{}, false, 0};
}

wire::Work Coordinator::work_of(const State& state) const {
  return request::make_work(state, state.base, state.deadline - now(), state.num_failures >= 2);
}

wire::GrantRef Coordinator::grant_ref(const State& state) const {
  const topology::Instance& decode = *members_.find(state.decode.instance);
  wire::GrantRef ref;
  ref.set_grant(state.grant.value);
  ref.set_instance(state.decode.instance);
  ref.set_incarnation(state.decode.incarnation.value);
  ref.set_link_endpoint(decode.descriptor.link_endpoints(0));
  ref.set_link_secret(state.link_secret);
  ref.set_cached_tokens(state.grant_cached_tokens);
  return ref;
}

void Coordinator::send_reserve(State& state) {
  wire::Envelope envelope;
  wire::Reserve& reserve = *envelope.mutable_reserve();
  reserve.set_request(state.id.value);
  reserve.set_attempt(state.attempt.value);
  *reserve.mutable_work() = work_of(state);
  reserve.set_prefill_instance(state.prefill.instance);
  reserve.set_prefill_incarnation(state.prefill.incarnation.value);
  send(state.decode.instance, state.decode.incarnation, std::move(envelope));
  state.resend_at = now() + options_.deadlines.resend;
}

void Coordinator::send_prefill(State& state) {
  wire::Envelope envelope;
  wire::Prefill& prefill = *envelope.mutable_prefill();
  prefill.set_request(state.id.value);
  prefill.set_attempt(state.attempt.value);
  prefill.set_epoch(state.epoch.value);
  *prefill.mutable_grant() = grant_ref(state);
  prefill.set_num_tokens(static_cast<uint32_t>(state.request.prompt.size()) + state.base);
  state.prefill.attempt = state.attempt;
  state.prefill.open = state.prefill.instance != state.decode.instance;
  state.phase = Phase::kPrefilling;
  state.resend_at = TimePoint::max();
  if (state.prefill.open) {
    *prefill.mutable_work() = work_of(state);
  } else {
    // One leg does both: its lease is known there with or without this message, so that no Nack
    // will tell of its loss.
    state.resend_at = now() + options_.deadlines.resend;
  }
  send(state.prefill.instance, state.prefill.incarnation, std::move(envelope));
}

void Coordinator::send_retarget(State& state) {
  wire::Envelope envelope;
  wire::Retarget& retarget = *envelope.mutable_retarget();
  retarget.set_request(state.id.value);
  retarget.set_attempt(state.attempt.value);
  retarget.set_old_attempt(state.source_attempt.value);
  retarget.set_epoch(state.epoch.value);
  *retarget.mutable_grant() = grant_ref(state);
  state.prefill.attempt = state.attempt;
  state.phase = Phase::kPrefilling;
  state.resend_at = TimePoint::max();
  send(state.prefill.instance, state.prefill.incarnation, std::move(envelope));
}

void Coordinator::send_regrant(State& state) {
  wire::Envelope envelope;
  wire::Regrant& regrant = *envelope.mutable_regrant();
  regrant.set_request(state.id.value);
  regrant.set_attempt(state.attempt.value);
  regrant.set_grant(state.grant.value);
  regrant.set_epoch(state.epoch.value);
  regrant.set_prefill_instance(state.prefill.instance);
  regrant.set_prefill_incarnation(state.prefill.incarnation.value);
  // What was emitted since the Reserve becomes input; a prefix of it may have been told before.
  for (size_t i = state.reserved_base; i < state.ids.size(); ++i) regrant.add_new_tokens(state.ids[i]);
  send(state.decode.instance, state.decode.incarnation, std::move(envelope));
  state.resend_at = now() + options_.deadlines.resend;
}

void Coordinator::on_granted(const topology::Instance& from, const wire::Granted& granted) {
  State* state = find_current(granted.request(), granted.attempt());
  if (state == nullptr || !from_leg(from, state->decode)) return;  // its lease ends by itself
  if (state->phase != Phase::kReserving) return;
  state->grant = GrantId{granted.grant()};
  state->grant_cached_tokens = granted.cached_tokens();
  state->link_secret = granted.link_secret();
  stage_done(*state, telemetry::HandoverStage::kReserve);
  if (state->has_source) {
    if (alive(state->prefill)) {
      send_retarget(*state);
      return;
    }
    // The source died while its new target was being found; what it emitted becomes input.
    drop_leg(*state, state->prefill);
    regrant(*state, state->decode.instance);
    return;
  }
  // Decided only now, on exact numbers: a short rest isn't worth a transfer.
  const uint64_t num_inputs = state->request.prompt.size() + state->base;
  const bool short_rest = num_inputs - granted.cached_tokens() < options_.local_prefill_tokens;
  if (short_rest || !alive(state->prefill)) use_decode_side_as_prefill(*state);
  send_prefill(*state);
}

void Coordinator::on_refused(const topology::Instance& from, const wire::Refused& refused) {
  State* state = find_current(refused.request(), refused.attempt());
  if (state == nullptr || !from_leg(from, state->decode)) return;
  if (state->phase != Phase::kReserving) return;
  switch (refused.reason()) {
    case wire::Refused::NO_ROOM:  // kept there; Granted follows by itself
      state->resend_at = now() + options_.deadlines.grant_ttl;  // in case that one gets lost
      break;
    case wire::Refused::NEVER:
      fail(*state, {ErrorCode::kInvalidArgument, refused.message(), "max_tokens"});
      break;
    default:  // not kept: back to the front of the queue, and elsewhere if possible
      drop_leg(*state, state->decode);
      state->not_before = now() + options_.deadlines.resend;
      requeue(*state);
      try_dispatch();
      break;
  }
}

void Coordinator::on_regranted(const topology::Instance& from, const wire::Regranted& regranted) {
  State* state = find_current(regranted.request(), regranted.attempt());
  if (state == nullptr || !from_leg(from, state->decode)) return;
  if (state->phase != Phase::kRegranting || regranted.epoch() != state->epoch.value) return;
  if (regranted.already_committed()) {
    prefill_done(*state);
    state->phase = Phase::kDecoding;
    return;
  }
  state->grant_cached_tokens = regranted.cached_tokens();
  state->link_secret = regranted.link_secret();
  const uint32_t block_size = members_.find(from.name)->descriptor.kv().block_size();
  const uint32_t blocks = blocks_for(state->request.prompt.size() + state->ids.size(),
                                     block_size);
  const bool worth = regranted.missing_blocks() * kWorthRegrantDenominator >=
                     blocks * kWorthRegrantNumerator;
  // The other prefill side was chosen when the Regrant was sent; its end of the pair is known.
  if (!worth || !alive(state->prefill)) use_decode_side_as_prefill(*state);
  state->base = static_cast<uint32_t>(state->ids.size());
  send_prefill(*state);
}

// The prefill side has nothing to compute any more: its slot is free for the next request.
void Coordinator::prefill_done(State& state) {
  if (!state.holds_prefill_slot) return;
  state.holds_prefill_slot = false;
  stage_done(state, telemetry::HandoverStage::kPrefill);
  try_dispatch();
}

void Coordinator::on_no_source(const topology::Instance& from, const wire::NoSource& no_source) {
  State* state = find_current(no_source.request(), no_source.attempt());
  if (state == nullptr || !from_leg(from, state->prefill) || !state->has_source) return;
  if (state->phase != Phase::kPrefilling) return;
  // A fresh start: what was emitted meanwhile has to be input, which the grant doesn't know.
  drop_leg(*state, state->prefill);
  state->has_source = false;
  close_leg(*state, state->decode, true);
  requeue(*state);
  try_dispatch();
}

}  // namespace tandem::coordinator
