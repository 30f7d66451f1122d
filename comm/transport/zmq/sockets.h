#pragma once
// ZeroMQ sockets the way the control plane needs them, their monitor, and the frame on the wire.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <zmq.hpp>

#include "comm/transport/zmq/zmq_transport.h"

namespace tandem::transport {

// One frame: "TDM", kind, connection number (u32, little-endian), payload. The node numbers its
// connections and the hub repeats the number, so that what was meant for an earlier connection is
// recognised and dropped.
enum class FrameKind : uint8_t {
  kMessage = 0,
  kProbe = 1,   // hub → node: nothing; finds out whether the peer is still there
  kReset = 2,   // hub → node: you were cut off, connect again
};
constexpr size_t kFrameHeaderBytes = 8;

struct Frame {
  FrameKind kind = FrameKind::kMessage;
  uint32_t connection = 0;
  std::string_view payload;   // points into the message it was parsed from
};

zmq::message_t make_frame(FrameKind kind, uint32_t connection, std::string_view payload);
// Nothing when the bytes are not a frame of ours. The result points into the message.
std::optional<Frame> parse_frame(const zmq::message_t& message);

// Sets everything but what tells hub from node: linger 0, sizes, queue limits, heartbeats.
void configure_socket(zmq::socket_t& socket, const ZmqOptions& options);

// Connection events of one socket. Used by the thread that owns the socket; destroyed before it.
class SocketMonitor {
 public:
  SocketMonitor(zmq::context_t& context, zmq::socket_t& socket, const std::string& address);
  zmq::socket_t& socket() { return events_; }
  // The next event (ZMQ_EVENT_*), or 0 when there is none now.
  int next();

 private:
  zmq::socket_t events_;
};

// A StartupError for a failed bind or connect, saying what to do about it.
StartupError endpoint_error(const char* action, const std::string& endpoint, int error_number);

}  // namespace tandem::transport
