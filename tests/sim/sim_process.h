#pragma once
// The simulated processes: an instance (real Engine over toy seams) and the coordinator, each
// behind a transport that can die at a fault point.

#include <functional>
#include <memory>
#include <string>

#include "comm/telemetry/metrics.h"
#include "comm/transport/loopback/loopback.h"
#include "coordinator/coordinator.h"
#include "tests/sim/sim_link.h"
#include "tests/sim/toy_model.h"
#include "tests/sim/virtual_loop.h"
#include "worker/engine/engine.h"

namespace tandem::sim {

// Called around every message of a process. Returns false when the process dies there: what
// follows on its stack has no effect on anybody any more.
using MessageHook =
    std::function<bool(const std::string& process, const std::string& message, bool sending,
                       bool before)>;

// A node's end of the control network. Runs handlers on the process's own loop.
class SimNodeTransport final : public transport::NodeTransport {
 public:
  SimNodeTransport(std::unique_ptr<transport::NodeTransport> inner, NodeLoop& loop,
                   std::string name, MessageHook hook)
      : inner_(std::move(inner)), loop_(loop), name_(std::move(name)), hook_(std::move(hook)) {}

  void connect(const std::string& endpoint, transport::NodeHandlers handlers) override;
  Status send(std::string bytes) override;
  void set_beacon(Duration interval, std::function<std::string()> make) override;
  void kill() { dead_ = true; }

 private:
  std::unique_ptr<transport::NodeTransport> inner_;
  NodeLoop& loop_;
  std::string name_;
  MessageHook hook_;
  bool dead_ = false;
};

class SimHubTransport final : public transport::HubTransport {
 public:
  SimHubTransport(std::unique_ptr<transport::HubTransport> inner, MessageHook hook)
      : inner_(std::move(inner)), hook_(std::move(hook)) {}

  std::string bind(const std::string& endpoint, transport::HubHandlers handlers) override;
  Status send(transport::PeerId peer, std::string bytes) override;
  void kill() { dead_ = true; }

 private:
  std::unique_ptr<transport::HubTransport> inner_;
  MessageHook hook_;
  bool dead_ = false;
};

struct InstanceShape {
  std::string name;
  config::Role role = config::Role::kMixed;
  uint32_t num_blocks = 0;
  uint32_t block_size = 0;
  scheduler::Config scheduler;
  Duration step_cost{};               // added to every step
};

struct World {
  VirtualLoop& loop;
  Rng& rng;
  transport::LoopbackNetwork& net;
  SimLinkNetwork& links;
  MessageHook hook;
  std::function<void(const std::string& line)> trace;  // empty: no tracing
  uint32_t local_prefill_tokens = 0;
};

// One life of an instance's process.
class InstanceProcess {
 public:
  InstanceProcess(World& world, const InstanceShape& shape);
  // Nothing it still does on its stack reaches anybody.
  void kill();

  NodeLoop loop;
  telemetry::MetricsRegistry registry;
  telemetry::WorkerMetrics metrics;
  telemetry::Logger log;
  topology::HeartbeatSource heartbeats;
  SimNodeTransport control;
  SimLink link;
  ToyExecutor executor;
  std::unique_ptr<engine::Engine> engine;
  std::string fatal;
};

class CoordinatorProcess {
 public:
  CoordinatorProcess(World& world, const std::vector<InstanceShape>& shapes);
  void kill();

  NodeLoop loop;
  telemetry::MetricsRegistry registry;
  telemetry::CoordinatorMetrics metrics;
  telemetry::Logger log;
  SimHubTransport hub;
  std::unique_ptr<coordinator::Coordinator> coordinator;
};

inline constexpr const char* kControlEndpoint = "sim://coordinator";

}  // namespace tandem::sim
