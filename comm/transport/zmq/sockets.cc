#include "comm/transport/zmq/sockets.h"

#include <cerrno>
#include <cstring>

namespace tandem::transport {
namespace {

constexpr char kMagic[3] = {'T', 'D', 'M'};

int to_ms(Duration duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

const char* advice(int error_number) {
  switch (error_number) {
    case EADDRINUSE: return "address already in use; choose another port, or 0 for any free one";
    case EADDRNOTAVAIL: case ENODEV: return "no such address on this machine; use one of its own";
    case EACCES: return "not permitted; choose a port above 1023";
    case EINVAL: case EPROTONOSUPPORT:
      return "malformed endpoint; write it as tcp://ADDRESS:PORT";
    default: return nullptr;
  }
}

}  // namespace

zmq::message_t make_frame(FrameKind kind, uint32_t connection, std::string_view payload) {
  zmq::message_t message(kFrameHeaderBytes + payload.size());
  auto* out = static_cast<unsigned char*>(message.data());
  std::memcpy(out, kMagic, sizeof kMagic);
  out[3] = static_cast<unsigned char>(kind);
  for (int i = 0; i < 4; ++i) out[4 + i] = static_cast<unsigned char>(connection >> (8 * i));
  if (!payload.empty()) std::memcpy(out + kFrameHeaderBytes, payload.data(), payload.size());
  return message;
}

std::optional<Frame> parse_frame(const zmq::message_t& message) {
  if (message.size() < kFrameHeaderBytes) return std::nullopt;
  const auto* in = static_cast<const unsigned char*>(message.data());
  if (std::memcmp(in, kMagic, sizeof kMagic) != 0) return std::nullopt;
  if (in[3] > static_cast<unsigned char>(FrameKind::kReset)) return std::nullopt;
  Frame frame;
  frame.kind = static_cast<FrameKind>(in[3]);
  for (int i = 0; i < 4; ++i) frame.connection |= static_cast<uint32_t>(in[4 + i]) << (8 * i);
  frame.payload = std::string_view(static_cast<const char*>(message.data()), message.size());
  frame.payload.remove_prefix(kFrameHeaderBytes);
  return frame;
}

void configure_socket(zmq::socket_t& socket, const ZmqOptions& options) {
  const int max_queued = static_cast<int>(options.limits.max_outbound_messages);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::maxmsgsize,
             static_cast<int64_t>(options.limits.max_message_bytes + kFrameHeaderBytes));
  socket.set(zmq::sockopt::sndhwm, max_queued);
  socket.set(zmq::sockopt::rcvhwm, static_cast<int>(options.limits.max_inbound_messages));
  socket.set(zmq::sockopt::heartbeat_ivl, to_ms(options.heartbeat_interval));
  socket.set(zmq::sockopt::heartbeat_timeout, to_ms(options.heartbeat_timeout));
  socket.set(zmq::sockopt::heartbeat_ttl, to_ms(options.heartbeat_timeout));
  socket.set(zmq::sockopt::handshake_ivl, 5000);
}

SocketMonitor::SocketMonitor(zmq::context_t& context, zmq::socket_t& socket,
                             const std::string& address)
    : events_(context, zmq::socket_type::pair) {
  const int wanted = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED;
  if (zmq_socket_monitor(socket.handle(), address.c_str(), wanted) != 0) throw zmq::error_t();
  events_.set(zmq::sockopt::linger, 0);
  events_.connect(address);
}

int SocketMonitor::next() {
  zmq::message_t event;
  if (!events_.recv(event, zmq::recv_flags::dontwait)) return 0;
  zmq::message_t address;   // the second frame, always there
  static_cast<void>(events_.recv(address, zmq::recv_flags::none));
  uint16_t number = 0;
  if (event.size() < sizeof number) return 0;
  std::memcpy(&number, event.data(), sizeof number);
  return number;
}

StartupError endpoint_error(const char* action, const std::string& endpoint, int error_number) {
  const char* known = advice(error_number);
  return StartupError(std::string("can't ") + action + " " + endpoint + ": " +
                      (known != nullptr ? known : zmq_strerror(error_number)));
}

}  // namespace tandem::transport
