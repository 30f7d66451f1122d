#pragma once
// The control transport between processes: a ROUTER at the hub, a DEALER at each node, over TCP.

#include <memory>

#include "comm/runtime/event_loop.h"
#include "comm/transport/limits.h"
#include "comm/transport/transport.h"

namespace tandem::transport {

struct ZmqOptions {
  TransportLimits limits;
  // ZMTP pings: a peer whose process is stopped or unreachable is gone after the timeout. They say
  // nothing about its engine; the application's heartbeats do.
  Duration heartbeat_interval = std::chrono::milliseconds(200);
  Duration heartbeat_timeout = std::chrono::milliseconds(600);
  Duration reconnect_interval = std::chrono::milliseconds(100);
};

// Each end owns one I/O thread that owns all its sockets and sleeps while nothing happens; the
// loop and that thread meet in two bounded queues. An inbound queue that is full stops the reading
// (TCP then slows the sender down); an outbound one refuses. A peer that lets the hub's queue to it
// fill up is cut off: on_peer_gone here, a reconnect there.
// Requires: loop outlives the end.
std::unique_ptr<HubTransport> make_zmq_hub(EventLoop& loop, ZmqOptions options = {});
std::unique_ptr<NodeTransport> make_zmq_node(EventLoop& loop, ZmqOptions options = {});

}  // namespace tandem::transport
