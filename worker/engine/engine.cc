#include "worker/engine/engine.h"

#include <algorithm>
#include <utility>

#include "comm/runtime/planted.h"
#include "comm/wire/codec.h"
#include "comm/wire/limits.h"

namespace tandem::engine {

Engine::Engine(Options options, Seams seams, std::function<void(const std::string&)> fatal)
    : options_(std::move(options)), seams_(seams), fatal_(std::move(fatal)),
      lag_clock_(options_.deadlines.loop_lag),
      chain_seed_(wire::chain_seed(options_.descriptor.model_digest(),
                                   options_.descriptor.numerics_class(), "")),
      pool_(options_.descriptor.num_blocks()),
      ns_per_token_(static_cast<double>(options_.seconds_per_token.count())) {
  CHECK(options_.plan != nullptr);
  CHECK_GT(block_size(), 0u);
}

Engine::~Engine() {
  seams_.loop.cancel(timer_);
  for (auto& [key, sequence] : sequences_) close_landing(*sequence);
}

void Engine::start(const std::string& control_endpoint) {
  options_.descriptor.clear_link_endpoints();
  options_.descriptor.add_link_endpoints(seams_.link.endpoint());
  become(Incarnation{seams_.rng.next() | 1});
  transport::NodeHandlers handlers;
  handlers.on_connected = [this] {
    connected_ = true;
    send_hello();
  };
  handlers.on_disconnected = [this] {
    connected_ = false;
    joined_ = false;
  };
  handlers.on_message = [this](std::string bytes) { on_message(bytes); };
  topology::HeartbeatSource& heartbeats = seams_.heartbeats;
  seams_.control.set_beacon(options_.deadlines.heartbeat,
                            [&heartbeats] { return heartbeats.make(); });
  seams_.control.connect(control_endpoint, std::move(handlers));
  last_heard_ = now();
  timer_ = seams_.loop.after(options_.tick, [this] { on_tick(); });
}

// A new life under a new name; whatever the old one owed is void.
void Engine::become(Incarnation next) {
  incarnation_ = next;
  joined_ = false;
  seams_.link.reincarnate(incarnation_);
  seams_.heartbeats.identify(incarnation_, Incarnation{});
  link_secrets_.clear();
  released_.clear();
  released_order_.clear();
}

void Engine::send_hello() {
  wire::Envelope envelope;
  wire::Hello& hello = *envelope.mutable_hello();
  hello.set_protocol_version(wire::kProtocolVersion);
  hello.set_instance(options_.instance);
  hello.set_role(config::role_name(options_.role));
  *hello.mutable_descriptor() = options_.descriptor;
  hello.set_pid(options_.pid);
  hello.set_launcher_pid(options_.launcher_pid);
  hello.set_metrics_url(options_.metrics_url);
  envelope.set_from_incarnation(incarnation_.value);
  (void)seams_.control.send(wire::encode(envelope));
  hello_at_ = now();
}

void Engine::send(wire::Envelope envelope) {
  if (!joined_) return;  // the resend timers and Resync repair it
  envelope.set_to_incarnation(coordinator_.value);
  envelope.set_from_incarnation(incarnation_.value);
  (void)seams_.control.send(wire::encode(envelope));
}

void Engine::send_nack(const SequenceId& id) {
  wire::Envelope envelope;
  wire::Nack& nack = *envelope.mutable_nack();
  nack.set_request(id.request.value);
  nack.set_attempt(id.attempt.value);
  nack.set_message("unknown");
  send(std::move(envelope));
}

void Engine::on_message(const std::string& bytes) {
  const Result<wire::Envelope> envelope = wire::decode(bytes);
  if (!envelope) {
    seams_.log.warning("bad_message", {{"why", envelope.error().message}});
    return;
  }
  if (Incarnation{envelope->to_incarnation()} != incarnation_) {
    seams_.metrics.late_messages.add();
    return;
  }
  const Incarnation from{envelope->from_incarnation()};
  if (envelope->has_welcome()) {
    on_welcome(from, envelope->welcome());
    return;
  }
  if (!joined_ || from != coordinator_) {
    seams_.metrics.late_messages.add();
    return;
  }
  last_heard_ = now();
  handle(*envelope);
  maybe_start_step();
}

void Engine::handle(const wire::Envelope& envelope) {
  const auto id_of = [](const auto& message) {
    return SequenceId{RequestId{message.request()}, Attempt{message.attempt()}};
  };
  switch (envelope.body_case()) {
    case wire::Envelope::kReserve: on_reserve(envelope.reserve()); break;
    case wire::Envelope::kPrefill: on_prefill(envelope.prefill()); break;
    case wire::Envelope::kRegrant: on_regrant(envelope.regrant()); break;
    case wire::Envelope::kRetarget: on_retarget(envelope.retarget()); break;
    case wire::Envelope::kRenew: on_renew(envelope.renew()); break;
    case wire::Envelope::kAck: on_ack(envelope.ack()); break;
    case wire::Envelope::kResend: on_resend(envelope.resend()); break;
    case wire::Envelope::kRelease: on_release(id_of(envelope.release())); break;
    case wire::Envelope::kCancel: on_release(id_of(envelope.cancel())); break;
    case wire::Envelope::kResync: on_resync(envelope.resync()); break;
    case wire::Envelope::kDrain: draining_ = true; break;
    default:
      seams_.log.warning("unexpected_message",
                         {{"body", wire::body_name(envelope.body_case())}});
  }
  update_heartbeat();
}

void Engine::on_welcome(Incarnation from, const wire::Welcome& welcome) {
  last_heard_ = now();
  if (welcome.refusal().empty()) {
    if (from != coordinator_) drop_everything("another coordinator");
    coordinator_ = from;
    joined_ = true;
    seams_.heartbeats.identify(incarnation_, coordinator_);
    seams_.log.info("joined_cluster", {{"incarnation", incarnation_}});
    return;
  }
  if (welcome.refusal() == "unknown") {
    if (now() - hello_at_ > options_.deadlines.resend) send_hello();
    return;
  }
  if (welcome.refusal() == "fenced") {
    seams_.log.warning("fenced", {{"incarnation", incarnation_}});
    drop_everything("fenced");
    become(Incarnation{seams_.rng.next() | 1});
    send_hello();
    return;
  }
  if (fatal_called_) return;
  fatal_called_ = true;
  fatal_("the coordinator refused this instance (" + welcome.refused_field() +
         "): " + welcome.refusal());
}

// The coordinator's list is the truth: what it doesn't want any more is let go.
void Engine::on_resync(const wire::Resync& resync) {
  std::map<SequenceId, uint32_t> wanted;
  for (const wire::AckEntry& entry : resync.entries()) {
    wanted[{RequestId{entry.request()}, Attempt{entry.attempt()}}] = entry.next_index();
  }
  std::vector<Sequence*> unwanted;
  for (auto& [key, sequence] : sequences_) {
    if (!wanted.contains(sequence->id)) unwanted.push_back(sequence.get());
  }
  for (Sequence* sequence : unwanted) {
    remember_released(sequence->id, sequence->counters);
    let_go(*sequence);
  }
  for (const auto& [id, next_index] : wanted) {
    Sequence* sequence = find(id);
    if (sequence == nullptr) {
      send_nack(id);
      continue;
    }
    sequence->acked = std::clamp(next_index, sequence->acked, sequence->outputs());
    rewind(*sequence, sequence->acked);
    sequence->finished_sent_at = TimePoint{};
  }
  flush_outbox();
  admit_waiting();
}

void Engine::on_renew(const wire::Renew& renew) {
  for (const wire::Lease& lease : renew.leases()) {
    const SequenceId id{RequestId{lease.request()}, Attempt{lease.attempt()}};
    Sequence* sequence = find(id);
    if (sequence == nullptr) {
      send_nack(id);
      continue;
    }
    if (planted(Bug::kForgetRenew)) continue;
    sequence->lease_until = now() + (sequence->is_decode_leg() ? options_.deadlines.grant_ttl
                                                               : options_.deadlines.source_lease);
  }
}

void Engine::on_tick() {
  timer_ = seams_.loop.after(options_.tick, [this] { on_tick(); });
  lag_clock_.tick(seams_.loop.now(), options_.tick);
  if (connected_ && !joined_ && now() - hello_at_ > options_.deadlines.resend) send_hello();
  if (!sequences_.empty() && now() - last_heard_ > options_.deadlines.coordinator_grace) {
    drop_everything("the coordinator is silent");
  }
  std::vector<Sequence*> expired;
  for (auto& [key, sequence] : sequences_) {
    if (now() >= sequence->lease_until && !sequence->doomed) expired.push_back(sequence.get());
  }
  for (Sequence* sequence : expired) {
    seams_.log.info("lease_ended", {{"request", sequence->id.request},
                                    {"phase", phase_name(sequence->phase)}});
    remember_released(sequence->id, sequence->counters);
    let_go(*sequence);
  }
  retry_links();
  resend_due();
  admit_waiting();
  update_heartbeat();
  maybe_start_step();
}

void Engine::drop_everything(const std::string& why) {
  if (!sequences_.empty()) {
    seams_.log.warning("dropped_all", {{"sequences", sequences_.size()}, {"why", why}});
  }
  std::vector<Sequence*> all;
  for (auto& [key, sequence] : sequences_) all.push_back(sequence.get());
  for (Sequence* sequence : all) {
    sequence->answer_released = false;
    let_go(*sequence);
  }
}

Sequence* Engine::find(const SequenceId& id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : sequences_.at(found->second).get();
}

Sequence* Engine::find_grant(GrantId grant) {
  const auto found = by_grant_.find(grant);
  return found == by_grant_.end() ? nullptr : sequences_.at(found->second).get();
}

Sequence& Engine::add(const SequenceId& id, LegKind kind, const wire::Work& work) {
  auto sequence = std::make_unique<Sequence>();
  sequence->key = next_key_++;
  sequence->id = id;
  sequence->kind = kind;
  sequence->lease_until = now() + (kind == LegKind::kDecodeLeg ? options_.deadlines.grant_ttl
                                                               : options_.deadlines.source_lease);
  sequence->tokens.assign(work.tokens().begin(), work.tokens().end());
  sequence->prompt_length = work.prompt_length();
  sequence->num_inputs = static_cast<uint32_t>(sequence->tokens.size());
  sequence->base = sequence->num_inputs - sequence->prompt_length;
  sequence->acked = sequence->sent = sequence->base;
  sequence->max_tokens = work.max_tokens();
  sequence->sampling = work.sampling();
  sequence->stop_ids.assign(work.stop_ids().begin(), work.stop_ids().end());
  sequence->ignore_eos = work.ignore_eos();
  sequence->solo = work.solo();
  by_id_[id] = sequence->key;
  return *sequences_.emplace(sequence->key, std::move(sequence)).first->second;
}

// Gives up a sequence: at once, or when the plan that writes its blocks is done. The reference is
// dead afterwards unless it is in a plan.
void Engine::let_go(Sequence& sequence) {
  close_landing(sequence);
  if (!sequence.is_decode_leg() && sequence.grant != GrantId{}) {
    seams_.link.drop(sequence.grant, sequence.epoch);
  }
  by_id_.erase(sequence.id);
  if (sequence.is_decode_leg()) by_grant_.erase(sequence.grant);
  if (sequence.in_plan) {
    sequence.doomed = true;
    return;
  }
  erase(sequence);
}

void Engine::erase(Sequence& sequence) {
  CHECK(!sequence.in_plan);
  const auto found = by_id_.find(sequence.id);
  if (found != by_id_.end() && found->second == sequence.key) by_id_.erase(found);
  sequences_.erase(sequence.key);
}

uint32_t Engine::blocks_for(uint64_t tokens) const {
  return static_cast<uint32_t>((tokens + block_size() - 1) / block_size());
}

Snapshot Engine::snapshot() const {
  Snapshot snapshot;
  snapshot.blocks = pool_.counts();
  for (const auto& [key, sequence] : sequences_) {
    switch (sequence->phase) {
      case Phase::kDecode: ++snapshot.running; break;
      case Phase::kSource:
      case Phase::kDone: ++snapshot.holding; break;
      default: ++snapshot.waiting;
    }
  }
  return snapshot;
}

void Engine::update_heartbeat() {
  const Snapshot snapshot = this->snapshot();
  wire::Heartbeat beat;
  beat.set_step(steps_);
  beat.set_running(snapshot.running);
  beat.set_waiting(snapshot.waiting);
  beat.mutable_blocks()->set_free(snapshot.blocks.free);
  beat.mutable_blocks()->set_cached(snapshot.blocks.cached);
  beat.mutable_blocks()->set_leased(snapshot.blocks.leased);
  beat.mutable_blocks()->set_total(snapshot.blocks.total);
  beat.set_draining(draining_);
  seams_.heartbeats.update(beat);
}

void Engine::refresh_gauges() {
  const Snapshot s = snapshot();
  telemetry::WorkerMetrics& m = seams_.metrics;
  m.requests_running.set(s.running);
  m.requests_waiting.set(s.waiting);
  m.kv_cache_usage.set(static_cast<double>(s.blocks.leased) / s.blocks.total);
  m.kv_blocks[telemetry::KvBlockState::kFree].set(s.blocks.free);
  m.kv_blocks[telemetry::KvBlockState::kCached].set(s.blocks.cached);
  m.kv_blocks[telemetry::KvBlockState::kLeased].set(s.blocks.leased);
  m.step_age.set(plan_running_ ? to_seconds(seams_.loop.now() - plan_started_) : 0);
}

void Engine::visit(const std::function<void(const Sequence&)>& visitor) const {
  for (const auto& [key, sequence] : sequences_) visitor(*sequence);
}

}  // namespace tandem::engine
