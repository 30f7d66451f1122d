#pragma once
// Engine: the instance side of the hand-over protocol (docs/PROTOCOL.md) and its step loop. It owns
// every sequence, the block pool and the outbox; plans steps and gives them to the Executor; grants
// blocks as a decode side and pushes them as a prefill side. Roles are a dial: every instance can
// do both.
//
// One thread: the EventLoop it was given. Time, randomness, network, links and compute come in from
// outside, so the simulation runs this very code.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/kvlink/kv_link.h"
#include "comm/runtime/event_loop.h"
#include "comm/runtime/ids.h"
#include "comm/runtime/rng.h"
#include "comm/telemetry/log.h"
#include "comm/telemetry/worker_metrics.h"
#include "comm/topology/heartbeat_source.h"
#include "comm/topology/lag_clock.h"
#include "comm/transport/transport.h"
#include "comm/wire/control.pb.h"
#include "configs/schema/config.h"
#include "worker/engine/executor.h"
#include "worker/engine/sequence.h"
#include "worker/kv/block_pool.h"
#include "worker/scheduler/policy.h"

namespace tandem::engine {

struct Options {
  std::string instance;
  config::Role role = config::Role::kMixed;
  wire::Descriptor descriptor;             // link_endpoints are filled in by the engine
  config::Deadlines deadlines;
  scheduler::Config scheduler;
  scheduler::PlanFunction plan = nullptr;
  std::vector<uint32_t> eos_ids;
  bool prefix_cache = true;
  uint32_t max_awaiting = 64;              // refused reserves kept
  uint32_t pid = 0;
  uint32_t launcher_pid = 0;
  std::string metrics_url;
  Duration seconds_per_token = std::chrono::milliseconds(5);  // from the warm-up plan
  Duration tick = std::chrono::milliseconds(20);
};

struct Seams {
  EventLoop& loop;
  Rng& rng;
  transport::NodeTransport& control;
  kvlink::KvLink& link;
  Executor& executor;
  topology::HeartbeatSource& heartbeats;
  telemetry::WorkerMetrics& metrics;
  telemetry::Logger& log;
};

// Idle, broken down, for tests and logs.
struct Snapshot {
  uint32_t running = 0;    // sequences that decode
  uint32_t waiting = 0;    // everything else that still needs room, parts or compute
  uint32_t holding = 0;    // sources and finished legs that wait for Release
  kv::BlockCounts blocks;
};

class Engine final : public kvlink::KvLinkEvents {
 public:
  // Everything referenced outlives the engine. `fatal` is called at most once, when this process
  // can't be a member of the cluster: the message says why.
  Engine(Options options, Seams seams, std::function<void(const std::string&)> fatal);
  ~Engine() override;

  // Connects to the coordinator and starts the timers.
  void start(const std::string& control_endpoint);

  Incarnation incarnation() const { return incarnation_; }
  bool joined() const { return joined_; }
  // True from the first Welcome on.
  bool ever_joined() const { return coordinator_ != Incarnation{}; }
  Snapshot snapshot() const;
  void refresh_gauges();
  const kv::BlockPool& pool() const { return pool_; }

  // Visits every sequence, in order of arrival: for invariants in tests.
  void visit(const std::function<void(const Sequence&)>& visitor) const;

  // kvlink::KvLinkEvents
  void on_part(GrantId grant, Epoch epoch, uint32_t block_index, uint64_t checksum,
               uint64_t num_bytes, kvlink::PartStatus status) override;
  void on_commit(Incarnation from, const wire::Commit& commit) override;
  void on_part_sent(GrantId grant, Epoch epoch, uint32_t block_index) override;
  void on_committed(GrantId grant, Epoch epoch) override;
  void on_link_lost(const kvlink::PeerAddress& peer, const std::string& why) override;

 private:
  // engine.cc
  void send_hello();
  void on_message(const std::string& bytes);
  void handle(const wire::Envelope& envelope);
  void on_welcome(Incarnation from, const wire::Welcome& welcome);
  void on_resync(const wire::Resync& resync);
  void on_renew(const wire::Renew& renew);
  void on_tick();
  void become(Incarnation next);
  void drop_everything(const std::string& why);
  void send(wire::Envelope envelope);
  void send_nack(const SequenceId& id);
  void update_heartbeat();
  TimePoint now() const { return lag_clock_.now(seams_.loop.now()); }
  Sequence* find(const SequenceId& id);
  Sequence* find_grant(GrantId grant);
  Sequence& add(const SequenceId& id, LegKind kind, const wire::Work& work);
  void let_go(Sequence& sequence);
  void erase(Sequence& sequence);
  uint32_t block_size() const { return options_.descriptor.kv().block_size(); }
  uint32_t blocks_for(uint64_t tokens) const;

  // decode_leg.cc
  void on_reserve(const wire::Reserve& reserve);
  void send_granted(const Sequence& sequence);
  void send_refused(const SequenceId& id, wire::Refused::Reason reason, std::string message);
  void admit_waiting();
  bool admit(Sequence& sequence);
  bool room_for_grant(uint32_t num_blocks) const;
  void open_landing(Sequence& sequence);
  void close_landing(Sequence& sequence);
  uint64_t link_secret(Incarnation source);
  void forget_old_peers(Incarnation fresh);
  void on_regrant(const wire::Regrant& regrant);
  void start_own_prefill(Sequence& sequence, const wire::Prefill& prefill);
  void note_received(Sequence& sequence);
  uint32_t leading_blocks(const Sequence& sequence) const;

  // prefill_leg.cc
  void on_prefill(const wire::Prefill& prefill);
  void on_retarget(const wire::Retarget& retarget);
  void set_target(Sequence& sequence, const wire::GrantRef& grant, Epoch epoch);
  void push_ready(Sequence& sequence);
  void send_commit(Sequence& sequence);
  void retry_links();

  // steps.cc
  void maybe_start_step();
  StepItem make_item(Sequence& sequence, const scheduler::WorkItem& work);
  void on_step_done(StepResult result);
  void apply(Sequence& sequence, const scheduler::WorkItem& work, const StepSample& sample);
  void count_computed(Sequence& sequence, const scheduler::WorkItem& work);
  void take_token(Sequence& sequence, uint32_t token, uint64_t digest,
                  const wire::TokenLogprobs& logprobs);
  bool finish_if_over(Sequence& sequence);
  void finish(Sequence& sequence, wire::Finished::Reason reason, std::string message);
  uint32_t computed_prefix(const Sequence& sequence) const;
  void hash_blocks(Sequence& sequence);
  void publish_ready(Sequence& sequence, uint32_t num_tokens);

  // outbox.cc
  void flush_outbox();
  void send_finished(Sequence& sequence);
  void resend_due();
  void rewind(Sequence& sequence, uint32_t next_index);
  void on_ack(const wire::Ack& ack);
  void on_resend(const wire::Resend& resend);
  void on_release(const SequenceId& id);
  void send_released(const SequenceId& id, const wire::LegCounters& counters);
  void remember_released(const SequenceId& id, const wire::LegCounters& counters);

  Options options_;
  Seams seams_;
  std::function<void(const std::string&)> fatal_;
  Incarnation incarnation_;
  Incarnation coordinator_;
  topology::LagClock lag_clock_;
  wire::Hash128 chain_seed_;
  kv::BlockPool pool_;

  std::map<uint64_t, std::unique_ptr<Sequence>> sequences_;   // by key: order of arrival
  std::map<SequenceId, uint64_t> by_id_;
  std::map<GrantId, uint64_t> by_grant_;                      // own grants
  std::map<SequenceId, wire::LegCounters> released_;          // answers for repeated Release
  std::vector<SequenceId> released_order_;
  std::map<Incarnation, uint64_t> link_secrets_;
  uint64_t next_key_ = 1;

  uint64_t next_plan_ = 1;
  bool plan_running_ = false;
  TimePoint plan_started_{};
  std::vector<scheduler::WorkItem> running_items_;
  double ns_per_token_ = 0;
  uint64_t steps_ = 0;

  bool connected_ = false;
  bool joined_ = false;
  bool draining_ = false;
  bool fatal_called_ = false;
  TimePoint last_heard_{};                                    // from the coordinator
  TimePoint hello_at_{};
  EventLoop::TimerId timer_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);     // expires with us
};

}  // namespace tandem::engine
