#pragma once
// The control plane's seam: one hub (the coordinator), many nodes (instance leaders).
// Implementations: zmq/ (processes), loopback/ (simulation).
//
// What both promise, per connection:
//   - messages arrive whole, in order, each at most once; a disconnect may lose a suffix of them,
//     in either direction, and nothing sent on one connection ever arrives on a later one;
//   - node side: on_connected, messages, on_disconnected, then possibly on_connected again, without
//     end (a node reconnects by itself); hub side: messages of a PeerId, then on_peer_gone, once.
//     A peer is known to the hub from its first message on; a reconnect is a new PeerId.
// A transport is made, used and destroyed on its owner's EventLoop thread; every handler runs there
// too, posted (never inside send()), and none runs after the destructor. Handlers may call send().

#include <cstdint>
#include <functional>
#include <string>

#include "comm/runtime/clock.h"
#include "comm/runtime/ids.h"
#include "comm/runtime/result.h"

namespace tandem::transport {

// One connection of one node, as the hub sees it. Never reused within a hub's life.
using PeerId = Id<struct PeerIdTag, uint64_t>;

struct HubHandlers {
  std::function<void(PeerId, std::string bytes)> on_message = nullptr;
  std::function<void(PeerId)> on_peer_gone = nullptr;
};

class HubTransport {
 public:
  virtual ~HubTransport() = default;

  // Starts to listen; returns the bound endpoint (port 0 replaced by the port taken).
  // Throws StartupError, naming the endpoint, when it can't be bound. Requires: called once.
  virtual std::string bind(const std::string& endpoint, HubHandlers handlers) = 0;

  // Queues a message; never blocks. Ok means queued, not delivered; what goes to a peer that is
  // gone is dropped. kInvalidArgument: over the size limit. kExhausted: the outbound queue is full.
  [[nodiscard]] virtual Status send(PeerId peer, std::string bytes) = 0;
};

struct NodeHandlers {
  std::function<void()> on_connected = nullptr;
  std::function<void()> on_disconnected = nullptr;
  std::function<void(std::string bytes)> on_message = nullptr;
};

class NodeTransport {
 public:
  virtual ~NodeTransport() = default;

  // Starts to connect, and reconnects for ever, in the background. Throws StartupError when the
  // endpoint is malformed; an absent hub is no error. Requires: called once.
  virtual void connect(const std::string& endpoint, NodeHandlers handlers) = 0;

  // As HubTransport::send; kUnavailable while not connected (between on_disconnected and the next
  // on_connected).
  [[nodiscard]] virtual Status send(std::string bytes) = 0;

  // Sends make()'s result every `interval` while connected, starting one interval after each
  // connect; an empty string skips one turn. In zmq/ it is made and sent by the I/O thread, so that
  // a busy loop stays audible: make must be thread-safe and must not block.
  // Requires: called before connect(), at most once.
  virtual void set_beacon(Duration interval, std::function<std::string()> make) = 0;
};

}  // namespace tandem::transport
