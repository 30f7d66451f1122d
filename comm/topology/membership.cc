#include "comm/topology/membership.h"

#include <algorithm>
#include <utility>

#include "comm/runtime/check.h"
#include "comm/wire/limits.h"

namespace tandem::topology {
namespace {

constexpr size_t kMaxEndedKept = 4096;

}  // namespace

const char* state_name(InstanceState state) {
  switch (state) {
    case InstanceState::kStarting: return "starting";
    case InstanceState::kReady: return "ready";
    case InstanceState::kSuspect: return "suspect";
    case InstanceState::kDraining: return "draining";
    case InstanceState::kDead: return "dead";
  }
  return "unknown";
}

Membership::Membership(const config::Deadlines& deadlines, Expected expected)
    : deadlines_(deadlines), expected_(std::move(expected)) {}

void Membership::configure(const std::string& name, Role role) {
  CHECK(!instances_.contains(name));
  Instance instance;
  instance.name = name;
  instance.role = role;
  instances_.emplace(name, std::move(instance));
}

JoinResult Membership::refuse(std::string field, std::string why) const {
  JoinResult result;
  result.field = std::move(field);
  result.refusal = std::move(why);
  return result;
}

JoinResult Membership::check(const wire::Hello& hello) const {
  const auto differs = [&](const char* field, const std::string& theirs,
                           const std::string& ours) {
    return refuse(field, "instance '" + hello.instance() + "' has " + field + " " + theirs +
                             ", the cluster has " + ours);
  };
  const wire::Descriptor& d = hello.descriptor();
  if (hello.protocol_version() != wire::kProtocolVersion) {
    return differs("protocol_version", std::to_string(hello.protocol_version()),
                   std::to_string(wire::kProtocolVersion));
  }
  const auto found = instances_.find(hello.instance());
  if (found == instances_.end()) {
    return refuse("instance", "instance '" + hello.instance() +
                                  "' is not in the cluster's configuration (pools)");
  }
  if (hello.role() != role_name(found->second.role)) {
    return differs("role", hello.role(), role_name(found->second.role));
  }
  if (!expected_.model_digest.empty() && d.model_digest() != expected_.model_digest) {
    return differs("model_digest", d.model_digest(), expected_.model_digest);
  }
  if (expected_.block_size != 0 && d.kv().block_size() != expected_.block_size) {
    return differs("kv.block_size", std::to_string(d.kv().block_size()),
                   std::to_string(expected_.block_size));
  }
  if (!expected_.kv_dtype.empty() && d.kv().dtype() != expected_.kv_dtype) {
    return differs("kv.dtype", d.kv().dtype(), expected_.kv_dtype);
  }
  if (!expected_.tile_format.empty() && d.kv().tile_format() != expected_.tile_format) {
    return differs("kv.tile_format", d.kv().tile_format(), expected_.tile_format);
  }
  if (!expected_.numerics_class.empty() && d.numerics_class() != expected_.numerics_class) {
    return differs("numerics_class", d.numerics_class(), expected_.numerics_class);
  }
  if (d.num_blocks() == 0 || d.kv().block_size() == 0 || d.link_endpoints_size() != 1) {
    return refuse("descriptor", "instance '" + hello.instance() +
                                    "' sent an incomplete descriptor (blocks, endpoints)");
  }
  JoinResult fine;
  fine.outcome = JoinOutcome::kJoined;
  return fine;
}

JoinResult Membership::hello(TimePoint now, uint64_t peer, Incarnation incarnation,
                             const wire::Hello& hello) {
  if (incarnation == Incarnation{}) return refuse("incarnation", "incarnation is 0");
  if (const std::string stale = stale_reason(peer, incarnation); !stale.empty()) {
    return refuse("incarnation", stale);
  }
  JoinResult result = check(hello);
  if (result.outcome == JoinOutcome::kRefused) return result;

  Instance& instance = instances_.at(hello.instance());
  if (instance.alive() && instance.incarnation == incarnation) {
    result.outcome = JoinOutcome::kRejoined;
  } else if (instance.alive()) {
    result.replaced = instance.incarnation;
    end(instance, "replaced");
  }
  const wire::Descriptor& d = hello.descriptor();
  if (expected_.model_digest.empty()) expected_.model_digest = d.model_digest();
  if (expected_.numerics_class.empty()) expected_.numerics_class = d.numerics_class();
  if (expected_.kv_dtype.empty()) expected_.kv_dtype = d.kv().dtype();
  if (expected_.block_size == 0) expected_.block_size = d.kv().block_size();
  if (expected_.tile_format.empty()) expected_.tile_format = d.kv().tile_format();

  instance.state = InstanceState::kReady;
  instance.incarnation = incarnation;
  instance.peer = peer;
  instance.descriptor = d;
  instance.pid = hello.pid();
  instance.launcher_pid = hello.launcher_pid();
  instance.metrics_url = hello.metrics_url();
  instance.last_heard = now;
  if (result.outcome == JoinOutcome::kJoined) {
    instance.heartbeat = wire::Heartbeat();
    instance.heartbeat.mutable_blocks()->set_total(d.num_blocks());
    instance.heartbeat.mutable_blocks()->set_free(d.num_blocks());
    ++instance.num_joins;
  }
  return result;
}

bool Membership::heard(TimePoint now, uint64_t peer, Incarnation incarnation) {
  for (auto& [name, instance] : instances_) {
    if (!instance.alive() || instance.peer != peer) continue;
    if (instance.incarnation != incarnation) return false;
    instance.last_heard = now;
    if (instance.state == InstanceState::kSuspect) instance.state = InstanceState::kReady;
    return true;
  }
  return false;
}

void Membership::heartbeat(uint64_t peer, const wire::Heartbeat& heartbeat) {
  for (auto& [name, instance] : instances_) {
    if (!instance.alive() || instance.peer != peer) continue;
    instance.heartbeat = heartbeat;
    if (heartbeat.draining()) instance.state = InstanceState::kDraining;
  }
}

void Membership::connection_lost(uint64_t peer) {
  for (auto& [name, instance] : instances_) {
    if (instance.peer == peer && instance.state == InstanceState::kReady) {
      instance.state = InstanceState::kSuspect;
    }
  }
}

Fenced Membership::end(Instance& instance, std::string why) {
  ended_[instance.incarnation.value] = why;
  if (ended_.size() > kMaxEndedKept) ended_.erase(ended_.begin());
  instance.state = InstanceState::kDead;
  return {instance.name, instance.incarnation, std::move(why)};
}

std::vector<Fenced> Membership::fence(const std::string& name, const std::string& why) {
  const auto found = instances_.find(name);
  if (found == instances_.end() || !found->second.alive()) return {};
  return {end(found->second, why)};
}

std::vector<Fenced> Membership::tick(TimePoint now) {
  std::vector<Fenced> fenced;
  for (auto& [name, instance] : instances_) {
    if (!instance.alive()) continue;
    const Duration silent = now - instance.last_heard;
    const wire::Heartbeat& beat = instance.heartbeat;
    const auto predicted = std::chrono::duration_cast<Duration>(
        std::chrono::milliseconds(beat.plan_predicted_ms()) * deadlines_.stalled_factor);
    const Duration stall_limit = std::max(deadlines_.stalled_min, predicted);
    if (silent >= deadlines_.fenced) {
      fenced.push_back(end(instance, "silent"));
    } else if (beat.plan_running() &&
               std::chrono::milliseconds(beat.plan_age_ms()) > stall_limit) {
      fenced.push_back(end(instance, "stalled"));
    } else if (silent >= deadlines_.suspect && instance.state == InstanceState::kReady) {
      instance.state = InstanceState::kSuspect;
    }
  }
  return fenced;
}

const Instance* Membership::find(const std::string& name) const {
  const auto found = instances_.find(name);
  return found == instances_.end() ? nullptr : &found->second;
}

const Instance* Membership::by_peer(uint64_t peer) const {
  for (const auto& [name, instance] : instances_) {
    if (instance.alive() && instance.peer == peer) return &instance;
  }
  return nullptr;
}

std::string Membership::stale_reason(uint64_t, Incarnation incarnation) const {
  const auto found = ended_.find(incarnation.value);
  if (found == ended_.end()) return "";
  return found->second == "replaced" ? "replaced" : "fenced";
}

}  // namespace tandem::topology
