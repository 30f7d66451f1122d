// What operators see: readiness, /admin/cluster, gauges, draining.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "coordinator/coordinator.h"

namespace tandem::coordinator {

request::Readiness Coordinator::readiness() const {
  request::Readiness readiness;
  readiness.draining = draining_;
  readiness.all_instances = !members_.instances().empty();
  bool some = false;
  for (const auto& [name, instance] : members_.instances()) {
    if (instance.takes_work()) some = true;
    if (!instance.takes_work()) {
      readiness.all_instances = false;
      if (!readiness.why.empty()) readiness.why += ", ";
      readiness.why += name + " is " + topology::state_name(instance.state);
    }
  }
  readiness.ready = some && !draining_;
  readiness.max_request_tokens = static_cast<uint32_t>(
      std::min<uint64_t>(largest_request(), UINT32_MAX));
  if (draining_) readiness.why = "the cluster is draining";
  return readiness;
}

std::string Coordinator::cluster_json() const {
  nlohmann::ordered_json instances = nlohmann::ordered_json::array();
  for (const auto& [name, instance] : members_.instances()) {
    const wire::Heartbeat& beat = instance.heartbeat;
    instances.push_back({
        {"name", name},
        {"role", config::role_name(instance.role)},
        {"state", topology::state_name(instance.state)},
        {"pid", instance.pid},
        {"launcher_pid", instance.launcher_pid},
        {"incarnation", std::to_string(instance.incarnation.value)},
        {"metrics", instance.metrics_url},
        {"running", beat.running()},
        {"waiting", beat.waiting()},
        {"blocks", {{"free", beat.blocks().free()}, {"cached", beat.blocks().cached()},
                    {"leased", beat.blocks().leased()}, {"total", beat.blocks().total()}}},
        {"joins", instance.num_joins},
        {"silent_ms", instance.alive() ? std::chrono::duration_cast<std::chrono::milliseconds>(
                                             now() - instance.last_heard).count()
                                       : -1},
    });
  }
  const nlohmann::ordered_json cluster = {
      {"instances", instances},
      {"queued", queue_.size()},
      {"requests", requests_.size()},
      {"closing", closing_.size()},
      {"draining", draining_},
      {"incarnation", std::to_string(options_.incarnation.value)},
  };
  return cluster.dump();
}

void Coordinator::drain() {
  if (!draining_) log_.info("draining", {{"requests", requests_.size()}});
  draining_ = true;
}

bool Coordinator::drain_instance(const std::string& name) {
  const topology::Instance* instance = members_.find(name);
  if (instance == nullptr) return false;
  wire::Envelope envelope;
  const auto drain = std::chrono::duration_cast<std::chrono::milliseconds>(
      options_.deadlines.drain);
  envelope.mutable_drain()->set_deadline_ms(static_cast<uint32_t>(drain.count()));
  send(name, instance->incarnation, std::move(envelope));
  return true;
}

bool Coordinator::idle() const { return requests_.empty() && closing_.empty(); }

void Coordinator::refresh_gauges() {
  metrics_.requests_waiting.set(static_cast<double>(queue_.size()));
  metrics_.requests_running.set(static_cast<double>(requests_.size() - queue_.size()));
  for (const auto& [name, instance] : members_.instances()) {
    telemetry::InstanceGauges& gauges = metrics_.instances.at(name);
    const wire::Heartbeat& beat = instance.heartbeat;
    gauges.running.set(beat.running());
    gauges.waiting.set(beat.waiting());
    gauges.set_state(static_cast<telemetry::InstanceState>(instance.state));
    using telemetry::KvBlockState;
    gauges.kv_blocks[KvBlockState::kFree].set(beat.blocks().free());
    gauges.kv_blocks[KvBlockState::kCached].set(beat.blocks().cached());
    gauges.kv_blocks[KvBlockState::kLeased].set(beat.blocks().leased());
  }
}

}  // namespace tandem::coordinator
