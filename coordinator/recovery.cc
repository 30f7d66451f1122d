// Lost legs: what happens to a request when an instance dies, stalls or forgets it.
#include <algorithm>
#include <utility>

#include "coordinator/coordinator.h"

namespace tandem::coordinator {

using request::Phase;

request::RequestState* Coordinator::find(uint64_t id) {
  const auto found = requests_.find(RequestId{id});
  return found == requests_.end() ? nullptr : found->second.get();
}

request::RequestState* Coordinator::find_current(uint64_t id, uint32_t attempt) {
  State* state = find(id);
  return state != nullptr && state->attempt.value == attempt ? state : nullptr;
}

bool Coordinator::from_leg(const topology::Instance& from, const Leg& leg) const {
  return leg.instance == from.name && leg.incarnation == from.incarnation;
}

void Coordinator::on_fenced(const topology::Fenced& fenced) {
  log_.warning("fenced", {{"instance", fenced.name}, {"incarnation", fenced.incarnation},
                          {"why", fenced.why}});
  const auto on_it = [&](const Leg& leg) {
    return leg.instance == fenced.name && leg.incarnation == fenced.incarnation;
  };
  for (RequestId id : all_ids()) {
    State* state = find(id.value);
    if (state == nullptr) continue;
    if (state->decode.open && on_it(state->decode)) {
      decode_lost(*state, fenced.name + " is gone (" + fenced.why + ")", true);
    } else if (state->prefill.open && on_it(state->prefill)) {
      prefill_lost(*state);
    }
  }
  for (auto it = closing_.begin(); it != closing_.end();) {
    if (it->first.instance == fenced.name && it->second.incarnation == fenced.incarnation) {
      const RequestId id = it->first.request;
      const uint32_t generated = it->second.num_new_ids;
      it = closing_.erase(it);
      leg_reported(id, generated);
    } else {
      ++it;
    }
  }
  try_dispatch();
}

// Before the commit the decode side finishes from what it has; afterwards nothing is missing.
void Coordinator::prefill_lost(State& state) {
  drop_leg(state, state.prefill);
  if (state.phase != Phase::kPrefilling) return;  // reserving: seen when Granted arrives
  metrics_.failovers[telemetry::FailoverKind::kPrefill].add();
  const std::string other = idle_prefill_instance(state);
  regrant(state, other.empty() ? state.decode.instance : other);
}

void Coordinator::regrant(State& state, const std::string& candidate) {
  state.prefill = leg_at(candidate);
  state.holds_prefill_slot = true;
  state.has_source = false;
  state.epoch = Epoch{state.epoch.value + 1};
  ++state.num_epochs;
  state.phase = Phase::kRegranting;
  send_regrant(state);
}

std::string Coordinator::idle_prefill_instance(const State& state) const {
  for (const router::InstanceView& i : view_for(state).instances) {
    if (!i.takes_work || i.role == config::Role::kDecode) continue;
    if (i.name == state.decode.instance || i.num_prefills > 0) continue;
    if (!pair_closed(leg_at(i.name), state.decode)) return i.name;
  }
  return "";
}

// died false: the instance lives, only its leg is gone; that is nobody's death to be counted.
void Coordinator::decode_lost(State& state, const std::string& why, bool died) {
  metrics_.failovers[telemetry::FailoverKind::kDecode].add();
  drop_leg(state, state.decode);
  if (died) ++state.num_failures;
  state.finished.reset();
  if (state.phase == Phase::kPrefilling && state.prefill.open && alive(state.prefill)) {
    // The prefill side keeps its blocks and pushes them to the next decode side.
    state.has_source = true;
    state.source_attempt = state.prefill.attempt;
  } else if (state.phase != Phase::kReserving) {
    if (state.prefill.open) close_leg(state, state.prefill, true);
    state.has_source = false;
  }
  if (state.num_failures > options_.max_failures) {
    fail(state, {ErrorCode::kUnavailable,
                 "lost " + std::to_string(state.num_failures) + " decode sides, the last: " + why,
                 ""});
    return;
  }
  metrics_.attempts.add();
  requeue(state);
}

// A new attempt, in the order of arrival: recovered requests are older than waiting ones.
void Coordinator::requeue(State& state) {
  state.attempt = Attempt{state.attempt.value + 1};
  state.phase = Phase::kQueued;
  state.stage_began = loop_.now();
  state.resend_at = TimePoint::max();
  if (!state.has_source) state.holds_prefill_slot = false;
  queue_.insert(std::lower_bound(queue_.begin(), queue_.end(), state.id), state.id);
}

// The instance lives but doesn't know the leg: a message got lost, or its lease ended.
void Coordinator::on_nack(const topology::Instance& from, const wire::Nack& nack) {
  State* state = find_current(nack.request(), nack.attempt());
  if (state == nullptr) return;
  if (state->decode.open && from_leg(from, state->decode)) {
    if (state->phase == Phase::kReserving) {
      send_reserve(*state);
      return;
    }
    decode_lost(*state, from.name + " does not know it", false);
    try_dispatch();
    return;
  }
  if (!state->prefill.open || !from_leg(from, state->prefill)) return;
  if (state->phase != Phase::kPrefilling) return;
  if (state->has_source) {
    send_retarget(*state);
  } else {
    send_prefill(*state);
  }
}

void Coordinator::on_part_failed(const topology::Instance& from, const wire::PartFailed& failed) {
  State* state = find_current(failed.request(), failed.attempt());
  if (state == nullptr || !state->prefill.open || !from_leg(from, state->prefill)) return;
  if (state->phase != Phase::kPrefilling || failed.epoch() != state->epoch.value) return;
  log_.warning("pair_closed", {{"prefill", state->prefill.instance},
                               {"decode", state->decode.instance}, {"why", failed.message()}});
  closed_pairs_[{state->prefill.incarnation, state->decode.incarnation}] =
      now() + options_.deadlines.link_closed;
  close_leg(*state, state->prefill, true);
  regrant(*state, state->decode.instance);
}

void Coordinator::instance_exited(const std::string& name, uint32_t pid) {
  const topology::Instance* instance = members_.find(name);
  if (instance == nullptr || !instance->alive() || instance->pid != pid) return;
  for (const topology::Fenced& fenced : members_.fence(name, "its process ended")) {
    on_fenced(fenced);
  }
}

}  // namespace tandem::coordinator
