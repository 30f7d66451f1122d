#include "coordinator/coordinator.h"

#include <algorithm>
#include <utility>

#include "comm/runtime/planted.h"
#include "comm/wire/codec.h"

namespace tandem::coordinator {

using request::Phase;

Coordinator::Coordinator(Options options, EventLoop& loop, transport::HubTransport& hub,
                         telemetry::CoordinatorMetrics& metrics, telemetry::Logger& log)
    : options_(std::move(options)), loop_(loop), hub_(hub), metrics_(metrics), log_(log),
      members_(options_.deadlines, options_.expected), lag_clock_(options_.deadlines.loop_lag) {
  CHECK_NE(options_.incarnation, Incarnation{});
  for (const auto& [name, role] : options_.instances) members_.configure(name, role);
}

Coordinator::~Coordinator() { loop_.cancel(timer_); }

std::string Coordinator::start(const std::string& control_endpoint) {
  transport::HubHandlers handlers;
  handlers.on_message = [this](transport::PeerId peer, std::string bytes) {
    on_message(peer, bytes);
  };
  handlers.on_peer_gone = [this](transport::PeerId peer) {
    members_.connection_lost(peer.value);
  };
  const std::string bound = hub_.bind(control_endpoint, std::move(handlers));
  last_alive_ = now();
  timer_ = loop_.after(options_.tick, [this] { on_tick(); });
  return bound;
}

void Coordinator::on_message(transport::PeerId peer, const std::string& bytes) {
  const Result<wire::Envelope> envelope = wire::decode(bytes);
  if (!envelope) {
    log_.warning("bad_message", {{"peer", peer}, {"why", envelope.error().message}});
    return;
  }
  const Incarnation from{envelope->from_incarnation()};
  if (envelope->has_hello()) {
    on_hello(peer, from, envelope->hello());
    return;
  }
  if (Incarnation{envelope->to_incarnation()} != options_.incarnation ||
      !members_.heard(now(), peer.value, from)) {
    metrics_.late_messages.add();
    for (const wire::SequenceTokens& late : envelope->tokens().sequences()) {
      metrics_.tokens_discarded[telemetry::DiscardReason::kFenced].add(late.ids_size());
    }
    reply_stale(peer, from);
    return;
  }
  handle(*members_.by_peer(peer.value), *envelope);
}

void Coordinator::handle(const topology::Instance& from, const wire::Envelope& envelope) {
  switch (envelope.body_case()) {
    case wire::Envelope::kHeartbeat: members_.heartbeat(from.peer, envelope.heartbeat()); break;
    case wire::Envelope::kGranted: on_granted(from, envelope.granted()); break;
    case wire::Envelope::kRefused: on_refused(from, envelope.refused()); break;
    case wire::Envelope::kRegranted: on_regranted(from, envelope.regranted()); break;
    case wire::Envelope::kNoSource: on_no_source(from, envelope.no_source()); break;
    case wire::Envelope::kNack: on_nack(from, envelope.nack()); break;
    case wire::Envelope::kTokens: on_tokens(from, envelope.tokens()); break;
    case wire::Envelope::kFinished: on_finished(from, envelope.finished()); break;
    case wire::Envelope::kReleased: on_released(from, envelope.released()); break;
    case wire::Envelope::kPartFailed: on_part_failed(from, envelope.part_failed()); break;
    default:
      log_.warning("unexpected_message", {{"from", from.name},
                                          {"body", wire::body_name(envelope.body_case())}});
  }
}

void Coordinator::on_hello(transport::PeerId peer, Incarnation incarnation,
                           const wire::Hello& hello) {
  const topology::JoinResult result = members_.hello(now(), peer.value, incarnation, hello);
  if (result.replaced != Incarnation{}) {
    on_fenced({hello.instance(), result.replaced, "replaced by a new incarnation"});
  }
  wire::Envelope reply;
  reply.set_to_incarnation(incarnation.value);
  reply.set_from_incarnation(options_.incarnation.value);
  wire::Welcome& welcome = *reply.mutable_welcome();
  welcome.set_coordinator_id(options_.coordinator_id);
  welcome.set_refusal(result.refusal);
  welcome.set_refused_field(result.field);
  (void)hub_.send(peer, wire::encode(reply));
  if (result.outcome == topology::JoinOutcome::kRefused) {
    log_.warning("join_refused", {{"instance", hello.instance()}, {"field", result.field},
                                  {"why", result.refusal}});
    return;
  }
  log_.info("joined", {{"instance", hello.instance()}, {"incarnation", incarnation},
                       {"again", result.outcome == topology::JoinOutcome::kRejoined}});
  const topology::Instance& instance = *members_.find(hello.instance());
  send_resync(instance);
  for (auto& [id, state] : requests_) {
    // The old connection may have swallowed a question or its answer.
    const bool asked = state->phase != Phase::kQueued && state->resend_at != TimePoint::max();
    if (asked && from_leg(instance, state->decode)) state->resend_at = now();
  }
  try_dispatch();
}

void Coordinator::send_resync(const topology::Instance& instance) {
  wire::Envelope envelope;
  wire::Resync& resync = *envelope.mutable_resync();
  for (const auto& [id, state] : requests_) {
    for (const Leg* leg : {&state->prefill, &state->decode}) {
      if (!leg->open || !from_leg(instance, *leg)) continue;
      wire::AckEntry& entry = *resync.add_entries();
      entry.set_request(id.value);
      entry.set_attempt(leg->attempt.value);
      entry.set_next_index(static_cast<uint32_t>(state->ids.size()));
    }
  }
  send(instance.name, instance.incarnation, std::move(envelope));
  for (auto& [key, closing] : closing_) {
    if (key.instance == instance.name) send_closing(key, closing);
  }
}

void Coordinator::reply_stale(transport::PeerId peer, Incarnation to) {
  if (planted(Bug::kSkipFence)) return;
  wire::Envelope reply;
  reply.set_to_incarnation(to.value);
  reply.set_from_incarnation(options_.incarnation.value);
  const std::string reason = members_.stale_reason(peer.value, to);
  reply.mutable_welcome()->set_refusal(reason.empty() ? "unknown" : reason);
  reply.mutable_welcome()->set_refused_field("incarnation");
  (void)hub_.send(peer, wire::encode(reply));
}

void Coordinator::send(const std::string& instance, Incarnation to, wire::Envelope envelope) {
  const topology::Instance* target = members_.find(instance);
  if (target == nullptr || !target->alive() || target->incarnation != to) return;
  envelope.set_to_incarnation(to.value);
  envelope.set_from_incarnation(options_.incarnation.value);
  // A full queue or a lost connection is repaired by the resend timers.
  (void)hub_.send(transport::PeerId{target->peer}, wire::encode(envelope));
}

bool Coordinator::alive(const Leg& leg) const {
  const topology::Instance* instance = members_.find(leg.instance);
  return instance != nullptr && instance->alive() && instance->incarnation == leg.incarnation;
}

void Coordinator::on_tick() {
  timer_ = loop_.after(options_.tick, [this] { on_tick(); });
  lag_clock_.tick(loop_.now(), options_.tick);
  for (const topology::Fenced& fenced : members_.tick(now())) on_fenced(fenced);
  std::erase_if(closed_pairs_, [&](const auto& pair) { return pair.second <= now(); });
  expire_requests();
  resend_due();
  if (now() >= next_renewal_) {
    next_renewal_ = now() + options_.deadlines.renew;
    send_renewals();
  }
  try_dispatch();
}

// A copy: an observer that is called on the way may end any request or start new ones.
std::vector<RequestId> Coordinator::all_ids() const {
  std::vector<RequestId> ids;
  ids.reserve(requests_.size());
  for (const auto& [id, state] : requests_) ids.push_back(id);
  return ids;
}

void Coordinator::expire_requests() {
  for (const auto& [name, instance] : members_.instances()) {
    if (instance.alive()) last_alive_ = now();
  }
  const bool deserted = now() - last_alive_ > options_.deadlines.join;
  for (RequestId id : all_ids()) {
    State* state = find(id.value);
    if (state == nullptr) continue;
    if (now() >= state->deadline) {
      fail(*state, {ErrorCode::kDeadline, "the request took longer than deadlines.request", ""});
    } else if (deserted) {
      fail(*state, {ErrorCode::kUnavailable, "no instance is alive", ""});
    }
  }
}

void Coordinator::resend_due() {
  for (RequestId id : all_ids()) {
    State& state = *requests_.at(id);
    if (state.phase != Phase::kQueued && now() >= state.resend_at) resend_request(state);
  }
  for (auto& [key, closing] : closing_) {
    if (now() >= closing.resend_at) send_closing(key, closing);
  }
}

// Every one of these messages is idempotent at its receiver.
void Coordinator::resend_request(State& state) {
  switch (state.phase) {
    case Phase::kReserving: send_reserve(state); break;
    case Phase::kRegranting: send_regrant(state); break;
    case Phase::kPrefilling:
      if (!state.prefill.open) {
        send_prefill(state);
        break;
      }
      [[fallthrough]];
    default: state.resend_at = TimePoint::max(); break;  // Renew and Nack find what was lost
  }
}

void Coordinator::send_renewals() {
  for (const auto& [name, instance] : members_.instances()) {
    if (!instance.alive()) continue;
    wire::Envelope envelope;
    wire::Renew& renew = *envelope.mutable_renew();
    for (const auto& [id, state] : requests_) {
      for (const Leg* leg : {&state->prefill, &state->decode}) {
        if (!leg->open || !from_leg(instance, *leg)) continue;
        wire::Lease& lease = *renew.add_leases();
        lease.set_request(id.value);
        lease.set_attempt(leg->attempt.value);
      }
    }
    send(name, instance.incarnation, std::move(envelope));
  }
}

}  // namespace tandem::coordinator
