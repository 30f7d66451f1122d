#pragma once
// Coordinator: the request side of the hand-over protocol (docs/PROTOCOL.md). It owns the queue,
// the journals and the view of the instances; decides where a request runs; recovers it when a leg
// is lost; and accounts for every generated token.
//
// One thread: everything runs on the EventLoop it was given. Time, randomness and the network come
// in from outside, so the simulation runs this very code. Never blocks, never touches weights.

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "comm/runtime/event_loop.h"
#include "comm/runtime/ids.h"
#include "comm/telemetry/coordinator_metrics.h"
#include "comm/telemetry/log.h"
#include "comm/topology/lag_clock.h"
#include "comm/topology/membership.h"
#include "comm/transport/transport.h"
#include "comm/wire/control.pb.h"
#include "configs/schema/config.h"
#include "coordinator/request/request_state.h"
#include "coordinator/request/service.h"
#include "coordinator/router/policy.h"

namespace tandem::coordinator {

struct Options {
  uint16_t coordinator_id = 1;
  Incarnation incarnation;
  config::Deadlines deadlines;
  topology::Expected expected;
  std::vector<std::pair<std::string, config::Role>> instances;
  uint32_t max_waiting = 1024;
  uint32_t max_failures = 2;             // decode sides a request may lose; then it fails
  router::Policy policy = &router::least_loaded;
  router::Config router;
  uint32_t local_prefill_tokens = 0;     // fewer uncached tokens: the decode side computes them
  Duration tick = std::chrono::milliseconds(20);
};

class Coordinator final : public request::Service {
 public:
  // Everything referenced outlives the coordinator. hub must not be bound yet.
  Coordinator(Options options, EventLoop& loop, transport::HubTransport& hub,
              telemetry::CoordinatorMetrics& metrics, telemetry::Logger& log);
  ~Coordinator() override;

  // Binds the control endpoint and starts the timers; returns the bound endpoint.
  // Throws StartupError when it can't be bound.
  std::string start(const std::string& control_endpoint);

  Result<RequestId> submit(request::Request request, request::Observer& observer) override;
  request::Ending finish_early(RequestId id, uint32_t delivered) override;
  void cancel(RequestId id, uint32_t delivered) override;
  request::Readiness readiness() const override;
  std::string cluster_json() const override;
  void drain() override;

  // The supervisor saw this process end: no need to wait for silence. Unknown pids are ignored.
  void instance_exited(const std::string& name, uint32_t pid);
  // Asks one instance to finish what it has and take nothing new. False for unknown names.
  bool drain_instance(const std::string& name);

  // Draining, and nothing is queued, running or still to be accounted for.
  bool idle() const;
  // Copies the view of the instances into the gauges; to be called before a scrape.
  void refresh_gauges();

  // For invariants in tests.
  const topology::Membership& members() const { return members_; }
  size_t num_requests() const { return requests_.size(); }
  size_t num_closing() const { return closing_.size(); }
  uint64_t num_divergences() const { return num_divergences_; }

 private:
  using State = request::RequestState;
  using Leg = request::Leg;
  // A leg that was told to let go and has not confirmed.
  struct Closing {
    Incarnation incarnation;
    bool cancel = false;
    uint32_t num_new_ids = 0;
    TimePoint resend_at{};
  };
  struct ClosingKey {
    RequestId request;
    Attempt attempt;
    std::string instance;
    auto operator<=>(const ClosingKey&) const = default;
  };

  // coordinator.cc: wiring, time, membership
  void on_message(transport::PeerId peer, const std::string& bytes);
  void handle(const topology::Instance& from, const wire::Envelope& envelope);
  void on_hello(transport::PeerId peer, Incarnation incarnation, const wire::Hello& hello);
  void send_resync(const topology::Instance& instance);
  void on_tick();
  void resend_due();
  void resend_request(State& state);
  void send_renewals();
  void expire_requests();
  void send(const std::string& instance, Incarnation to, wire::Envelope envelope);
  void reply_stale(transport::PeerId peer, Incarnation to);
  TimePoint now() const { return lag_clock_.now(loop_.now()); }
  bool alive(const Leg& leg) const;

  // handover.cc: queue, reserve, grant, prefill
  void try_dispatch();
  void stage_done(State& state, telemetry::HandoverStage stage);
  bool dispatch(State& state);
  router::View view_for(const State& state) const;
  void send_reserve(State& state);
  void send_prefill(State& state);
  void send_retarget(State& state);
  void send_regrant(State& state);
  void on_granted(const topology::Instance& from, const wire::Granted& granted);
  void on_refused(const topology::Instance& from, const wire::Refused& refused);
  void on_regranted(const topology::Instance& from, const wire::Regranted& regranted);
  void on_no_source(const topology::Instance& from, const wire::NoSource& no_source);
  wire::Work work_of(const State& state) const;
  wire::GrantRef grant_ref(const State& state) const;
  void use_decode_side_as_prefill(State& state);
  void prefill_done(State& state);
  bool pair_closed(const Leg& prefill, const Leg& decode) const;

  // delivery.cc: tokens, endings, accounting
  void on_tokens(const topology::Instance& from, const wire::Tokens& tokens);
  void accept(const topology::Instance& from, const wire::SequenceTokens& tokens,
              wire::Ack& ack);
  bool deliver(State& state, Leg& leg, const wire::SequenceTokens& tokens);
  void on_finished(const topology::Instance& from, const wire::Finished& finished);
  void ask_resend(const State& state, const Leg& leg);
  void complete_if_whole(State& state);
  void complete(State& state);
  void fail(State& state, Error error);
  request::Ending ending_of(const State& state, uint32_t num_tokens) const;
  uint64_t largest_request() const;
  void end(State& state, request::Account::Reason reason, uint32_t delivered, bool cancelled);
  void on_released(const topology::Instance& from, const wire::Released& released);
  void close_leg(State& state, Leg& leg, bool cancel);
  void drop_leg(State& state, Leg& leg);
  void send_closing(const ClosingKey& key, Closing& closing);
  void leg_reported(RequestId id, uint32_t generated);
  void settle(RequestId id);

  // recovery.cc: lost legs
  void on_fenced(const topology::Fenced& fenced);
  void prefill_lost(State& state);
  void regrant(State& state, const std::string& candidate);
  std::string idle_prefill_instance(const State& state) const;
  void decode_lost(State& state, const std::string& why, bool died);
  void requeue(State& state);
  void on_nack(const topology::Instance& from, const wire::Nack& nack);
  void on_part_failed(const topology::Instance& from, const wire::PartFailed& failed);
  State* find(uint64_t id);
  State* find_current(uint64_t id, uint32_t attempt);
  bool from_leg(const topology::Instance& from, const Leg& leg) const;
  std::vector<RequestId> all_ids() const;
  Leg leg_at(const std::string& instance) const;

  Options options_;
  EventLoop& loop_;
  transport::HubTransport& hub_;
  telemetry::CoordinatorMetrics& metrics_;
  telemetry::Logger& log_;
  topology::Membership members_;
  topology::LagClock lag_clock_;

  uint64_t next_request_ = 1;
  std::map<RequestId, std::unique_ptr<State>> requests_;
  std::vector<RequestId> queue_;                 // front first; recovered ones go to the front
  std::map<ClosingKey, Closing> closing_;
  std::map<RequestId, request::Account> accounts_;
  std::map<std::pair<Incarnation, Incarnation>, TimePoint> closed_pairs_;
  TimePoint next_renewal_{};
  TimePoint last_alive_{};                       // when some instance was last alive
  bool draining_ = false;
  bool dispatching_ = false;
  uint64_t num_divergences_ = 0;                 // a replayed token differed: never expected
  EventLoop::TimerId timer_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // expires with us; posted handlers look
};

}  // namespace tandem::coordinator
