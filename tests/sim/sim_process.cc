#include "tests/sim/sim_process.h"

#include <utility>

#include "comm/wire/codec.h"

namespace tandem::sim {
namespace {

std::string message_name(const std::string& bytes) {
  const auto envelope = wire::decode(bytes);
  return envelope ? wire::body_name(envelope->body_case()) : "undecodable";
}

telemetry::LoggerOptions log_options(World& world, const std::string& name) {
  telemetry::LoggerOptions options;
  options.instance = name;
  options.level = world.trace ? telemetry::LogLevel::kDebug : telemetry::LogLevel::kOff;
  options.timestamp = [&world] { return std::to_string(to_seconds(world.loop.now().time_since_epoch())); };
  options.sink = [&world](std::string_view line) {
    if (world.trace) world.trace(std::string(line));
  };
  return options;
}

wire::Descriptor descriptor_of(const InstanceShape& shape) {
  wire::Descriptor d;
  d.set_model_digest("toy");
  d.set_numerics_class("toy");
  d.set_num_blocks(shape.num_blocks);
  d.set_tp(1);
  d.set_pp(1);
  d.set_max_context(4096);
  d.set_vocab_size(kToyVocabulary);
  auto* kv = d.mutable_kv();
  kv->set_dtype("f32");
  kv->set_block_size(shape.block_size);
  kv->set_tile_format("toy");
  kv->set_block_bytes(uint64_t{shape.block_size} * kToySlotBytes);
  return d;
}

std::vector<std::string> names_of(const std::vector<InstanceShape>& shapes) {
  std::vector<std::string> names;
  for (const InstanceShape& shape : shapes) names.push_back(shape.name);
  return names;
}

}  // namespace

void SimNodeTransport::connect(const std::string& endpoint, transport::NodeHandlers handlers) {
  transport::NodeHandlers wrapped;
  auto shared = std::make_shared<transport::NodeHandlers>(std::move(handlers));
  wrapped.on_connected = [this, shared] { loop_.run([shared] { shared->on_connected(); }); };
  wrapped.on_disconnected = [this, shared] {
    loop_.run([shared] { shared->on_disconnected(); });
  };
  wrapped.on_message = [this, shared](std::string bytes) {
    loop_.run([this, shared, bytes = std::move(bytes)] {
      if (dead_) return;
      const std::string name = message_name(bytes);
      if (!hook_(name_, name, false, true)) return;
      shared->on_message(bytes);
      (void)hook_(name_, name, false, false);
    });
  };
  inner_->connect(endpoint, std::move(wrapped));
}

Status SimNodeTransport::send(std::string bytes) {
  if (dead_) return {};
  const std::string name = message_name(bytes);
  if (!hook_(name_, name, true, true)) return {};
  const Status status = inner_->send(std::move(bytes));
  (void)hook_(name_, name, true, false);
  return status;
}

void SimNodeTransport::set_beacon(Duration interval, std::function<std::string()> make) {
  inner_->set_beacon(interval, [this, make = std::move(make)]() -> std::string {
    if (dead_ || loop_.stopped()) return "";
    std::string bytes = make();
    if (bytes.empty() || !hook_(name_, "heartbeat", true, true)) return "";
    (void)hook_(name_, "heartbeat", true, false);
    return bytes;
  });
}

std::string SimHubTransport::bind(const std::string& endpoint, transport::HubHandlers handlers) {
  transport::HubHandlers wrapped;
  auto shared = std::make_shared<transport::HubHandlers>(std::move(handlers));
  wrapped.on_message = [this, shared](transport::PeerId peer, std::string bytes) {
    if (dead_) return;
    const std::string name = message_name(bytes);
    if (!hook_("coordinator", name, false, true)) return;
    shared->on_message(peer, std::move(bytes));
    (void)hook_("coordinator", name, false, false);
  };
  wrapped.on_peer_gone = [this, shared](transport::PeerId peer) {
    if (!dead_) shared->on_peer_gone(peer);
  };
  return inner_->bind(endpoint, std::move(wrapped));
}

Status SimHubTransport::send(transport::PeerId peer, std::string bytes) {
  if (dead_) return {};
  const std::string name = message_name(bytes);
  if (!hook_("coordinator", name, true, true)) return {};
  const Status status = inner_->send(peer, std::move(bytes));
  (void)hook_("coordinator", name, true, false);
  return status;
}

InstanceProcess::InstanceProcess(World& world, const InstanceShape& shape)
    : loop(world.loop), metrics(registry), log(log_options(world, shape.name)),
      heartbeats(world.loop),
      control(world.net.make_node(shape.name), loop, shape.name, world.hook),
      link(world.links, loop, shape.name,
           LinkHooks{[&world, name = shape.name](const char* message, bool sending, bool before) {
             return world.hook(name, message, sending, before);
           }}),
      executor(loop, world.rng, shape.num_blocks, shape.block_size, shape.step_cost) {
  engine::Options options;
  options.instance = shape.name;
  options.role = shape.role;
  options.descriptor = descriptor_of(shape);
  options.scheduler = shape.scheduler;
  options.plan = scheduler::find_policy("continuous")->plan;
  options.eos_ids = {kToyEos};
  options.tick = std::chrono::milliseconds(100);
  options.seconds_per_token = std::chrono::milliseconds(1);
  engine = std::make_unique<engine::Engine>(
      std::move(options),
      engine::Seams{loop, world.rng, control, link, executor, heartbeats, metrics, log},
      [this](const std::string& why) { fatal = why; });
  link.set_events(engine.get());
  engine->start(kControlEndpoint);
}

void InstanceProcess::kill() {
  control.kill();
  link.kill();
}

CoordinatorProcess::CoordinatorProcess(World& world, const std::vector<InstanceShape>& shapes)
    : loop(world.loop), metrics(registry, names_of(shapes)),
      log(log_options(world, "coordinator")), hub(world.net.make_hub(), world.hook) {
  coordinator::Options options;
  options.incarnation = Incarnation{world.rng.next() | 1};
  options.tick = std::chrono::milliseconds(100);
  options.local_prefill_tokens = world.local_prefill_tokens;
  for (const InstanceShape& shape : shapes) options.instances.emplace_back(shape.name, shape.role);
  coordinator = std::make_unique<coordinator::Coordinator>(std::move(options), loop, hub, metrics,
                                                           log);
  coordinator->start(kControlEndpoint);
}

void CoordinatorProcess::kill() { hub.kill(); }

}  // namespace tandem::sim
