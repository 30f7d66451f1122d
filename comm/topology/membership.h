#pragma once
// Membership: which instances a coordinator knows, and who is alive. Pure: time comes in, events
// come out. Owned by the coordinator's loop thread.
//
//   (configured) --hello--> ready --silent 1 s--> suspect --silent 3 s | stalled--> dead
//                             ^____heartbeat________/                               |
//                             ^-------------- hello, new incarnation ---------------'

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/runtime/clock.h"
#include "comm/runtime/ids.h"
#include "comm/wire/control.pb.h"
#include "configs/schema/config.h"
#include "configs/schema/deadlines.h"

namespace tandem::topology {

using config::Role;
using config::role_name;

enum class InstanceState { kStarting, kReady, kSuspect, kDraining, kDead };
const char* state_name(InstanceState state);

// What every joining instance must agree on. Empty strings and zeros are filled in by the first
// instance that joins.
struct Expected {
  std::string model_digest;
  std::string numerics_class;
  std::string kv_dtype;
  uint32_t block_size = 0;
  std::string tile_format;
};

// One configured instance. An entry exists from the start and is never removed.
struct Instance {
  std::string name;
  Role role = Role::kMixed;
  InstanceState state = InstanceState::kStarting;
  Incarnation incarnation;          // of the last one that joined; 0 before
  uint64_t peer = 0;                // transport identity of the last Hello
  wire::Descriptor descriptor;
  wire::Heartbeat heartbeat;        // the last one
  uint32_t pid = 0;
  uint32_t launcher_pid = 0;
  std::string metrics_url;
  TimePoint last_heard{};
  uint32_t num_joins = 0;

  bool alive() const {
    return state == InstanceState::kReady || state == InstanceState::kSuspect ||
           state == InstanceState::kDraining;
  }
  bool takes_work() const { return state == InstanceState::kReady; }
};

enum class JoinOutcome { kJoined, kRejoined, kRefused };

struct JoinResult {
  JoinOutcome outcome = JoinOutcome::kRefused;
  std::string refusal;        // when refused
  std::string field;          // the field that differs
  Incarnation replaced;       // a live predecessor that this join ended; 0 if none
};

// An incarnation that is over; everything it held is to be recovered.
struct Fenced {
  std::string name;
  Incarnation incarnation;
  std::string why;
};

class Membership {
 public:
  Membership(const config::Deadlines& deadlines, Expected expected);

  // Before any hello. Names are unique.
  void configure(const std::string& name, Role role);

  JoinResult hello(TimePoint now, uint64_t peer, Incarnation incarnation,
                   const wire::Hello& hello);
  // True when the message comes from the current incarnation of a live instance; refreshes its
  // last_heard. False for fenced, replaced and unknown senders.
  bool heard(TimePoint now, uint64_t peer, Incarnation incarnation);
  // Requires: heard() was true for the sender.
  void heartbeat(uint64_t peer, const wire::Heartbeat& heartbeat);
  // Marks an instance suspect at once (its connection went away).
  void connection_lost(uint64_t peer);
  // Ends an incarnation by decision (the supervisor saw the process die).
  std::vector<Fenced> fence(const std::string& name, const std::string& why);
  // Applies silence and stall deadlines.
  std::vector<Fenced> tick(TimePoint now);

  const Instance* find(const std::string& name) const;
  const Instance* by_peer(uint64_t peer) const;
  // In the order of configuration names; never in hash order.
  const std::map<std::string, Instance>& instances() const { return instances_; }
  // What the refusal of a stale sender is: "fenced" or "replaced"; empty for unknown senders.
  std::string stale_reason(uint64_t peer, Incarnation incarnation) const;

 private:
  JoinResult refuse(std::string field, std::string why) const;
  JoinResult check(const wire::Hello& hello) const;
  Fenced end(Instance& instance, std::string why);

  config::Deadlines deadlines_;
  Expected expected_;
  std::map<std::string, Instance> instances_;
  std::map<uint64_t, std::string> ended_;  // incarnation -> why; bounded
};

}  // namespace tandem::topology
