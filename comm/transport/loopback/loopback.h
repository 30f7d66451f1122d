#pragma once
// An in-process control network with seeded delays and faults, for the simulation and for unit
// tests. One thread, one virtual EventLoop, no clock of its own: the same seed replays exactly.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "comm/runtime/event_loop.h"
#include "comm/runtime/rng.h"
#include "comm/transport/limits.h"
#include "comm/transport/transport.h"

namespace tandem::transport {

struct LoopbackOptions {
  Duration min_delay = std::chrono::microseconds(50);    // of one message
  Duration max_delay = std::chrono::milliseconds(2);
  Duration reconnect_delay = std::chrono::milliseconds(100);
  Duration detect_delay = std::chrono::milliseconds(600);   // until a silent peer counts as gone
  TransportLimits limits;
};

struct LoopbackStats {
  uint64_t delivered = 0;   // messages given to a handler
  uint64_t lost = 0;        // accepted by send(), dropped by a fault
};

// The moments at which a test may want to look at a message, or to kill one of its ends.
enum class MessagePoint {
  kSending,     // before the sender queues it; a sender crashed here never sent it
  kSent,        // after that
  kDelivering,  // before the receiver's handler; a receiver crashed here never saw it
  kHandled,     // after that
};

struct MessageEvent {
  MessagePoint point;
  const std::string& node;    // the node end of the link
  bool to_hub;                // direction
  const std::string& bytes;   // empty at kHandled (the handler owns them by then)
  uint64_t number;            // of this message in the network, from 1; the same at all points
};

// Owned by the test; outlives every end made from it. Ends are named: hubs by the endpoint they are
// bound to, nodes by the name given to make_node. All delays come from the Rng, links are FIFO, and
// the order across links is free.
class LoopbackNetwork {
 public:
  LoopbackNetwork(EventLoop& loop, Rng& rng, LoopbackOptions options = {});
  ~LoopbackNetwork();
  LoopbackNetwork(const LoopbackNetwork&) = delete;
  LoopbackNetwork& operator=(const LoopbackNetwork&) = delete;

  // The ends. Destroying one is an orderly close: the other side sees it after what was sent.
  std::unique_ptr<HubTransport> make_hub();
  // Requires: no living node of that name.
  std::unique_ptr<NodeTransport> make_node(const std::string& name);

  // Cuts the node's connection: a random suffix of what is under way is lost in each direction,
  // both sides are told, and the node reconnects after reconnect_delay.
  void disconnect(const std::string& node);
  // kill -9 of the node's process: no handler of this end runs any more, the hub sees on_peer_gone
  // after a random prefix of what was under way. Destroy the end, then make_node may be called
  // again with the same name.
  void crash(const std::string& node);
  // kill -9 of the process behind a hub: likewise. Its nodes reconnect once a hub is bound to that
  // endpoint again.
  void crash_hub(const std::string& endpoint);
  // Silence between a node and its hub. Each side counts the other as gone after detect_delay, and
  // the node connects again only when the partition has ended. Ended sooner, nothing is lost.
  void partition(const std::string& node, bool on);
  // Extra delay of every message to and from a node, from now on (a slow link).
  void set_extra_delay(const std::string& node, Duration delay);

  // Called at every point of every message. May use the faults above on any end, and must not
  // destroy an end.
  void set_observer(std::function<void(const MessageEvent&)> observer);

  LoopbackStats stats() const;

 private:
  // Shared with the ends and with handlers pending on the loop.
  std::shared_ptr<class LoopbackState> state_;
};

}  // namespace tandem::transport
