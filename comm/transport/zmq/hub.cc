// The hub end: a ROUTER socket, owned by one I/O thread.
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "comm/runtime/check.h"
#include "comm/transport/zmq/queues.h"
#include "comm/transport/zmq/sockets.h"

namespace tandem::transport {
namespace {
using namespace std::chrono_literals;

// The 5-byte routing id the ROUTER gives to each connection: 0, then 32 bits.
constexpr size_t kRoutingIdBytes = 5;

class ZmqHub final : public HubTransport {
 public:
  ZmqHub(EventLoop& loop, ZmqOptions options)
      : options_(options),
        outbox_(options.limits, wake_),
        inbox_(std::make_shared<Inbox>(loop, options.limits.max_inbound_messages, wake_)),
        router_(context_, zmq::socket_type::router) {}

  ~ZmqHub() override {
    inbox_->stop();
    if (!thread_.joinable()) return;
    stop_ = true;
    wake_.wake();
    thread_.join();
  }

  std::string bind(const std::string& endpoint, HubHandlers handlers) override {
    CHECK(!thread_.joinable());
    inbox_->set_handler([handlers = std::move(handlers)](InEvent event) {
      const PeerId peer(event.connection);
      if (event.kind == InEvent::Kind::kMessage) {
        if (handlers.on_message) handlers.on_message(peer, std::move(event.bytes));
      } else if (handlers.on_peer_gone) {
        handlers.on_peer_gone(peer);
      }
    });
    configure_socket(router_, options_);
    router_.set(zmq::sockopt::router_mandatory, true);
    monitor_.emplace(context_, router_, "inproc://monitor");
    try {
      router_.bind(endpoint);
    } catch (const zmq::error_t& error) {
      throw endpoint_error("listen on", endpoint, error.num());
    }
    std::string bound = router_.get(zmq::sockopt::last_endpoint);
    thread_ = std::thread([this] { run(); });   // the sockets belong to it from here on
    return bound;
  }

  Status send(PeerId peer, std::string bytes) override {
    return outbox_.push({peer.value, std::move(bytes)});
  }

 private:
  struct Peer {
    uint32_t connection = 0;   // the number the node gave this connection
    bool cut_off = false;      // its queue ran full: told to connect again, not heard any more
    bool dying = false;        // the connection ended; told to the loop once all is read
  };
  enum class Sent { kYes, kFull, kGone };

  void run() {
    while (!stop_) {
      const bool reading = !inbox_->full();
      zmq::pollitem_t items[] = {
          {nullptr, wake_.fd(), ZMQ_POLLIN, 0},
          {monitor_->socket().handle(), 0, ZMQ_POLLIN, 0},
          {router_.handle(), 0, static_cast<short>(reading ? ZMQ_POLLIN : 0), 0},
      };
      try {
        zmq::poll(items, reading ? 3 : 2, poll_timeout());
      } catch (const zmq::error_t& error) {
        CHECK_EQ(error.num(), EINTR);
        continue;
      }
      if (items[0].revents != 0) wake_.clear();
      read_monitor();
      send_outbox();
      probe_when_due();
      if (reading) read_messages();
    }
    monitor_.reset();
    router_.close();
  }

  std::chrono::milliseconds poll_timeout() const {
    if (read_again_) return 0ms;
    if (probes_.empty()) return std::chrono::milliseconds(-1);
    const auto wait = *probes_.begin() - SystemClock().now();
    if (wait <= Duration(0)) return 0ms;
    return std::chrono::ceil<std::chrono::milliseconds>(wait);
  }

  // A ROUTER reports that *a* connection ended, not whose: every peer is probed, a few times,
  // since the socket learns of it a moment later.
  void read_monitor() {
    for (int event = monitor_->next(); event != 0; event = monitor_->next()) {
      if (event != ZMQ_EVENT_DISCONNECTED) continue;
      const TimePoint now = SystemClock().now();
      probes_.insert({now + 2ms, now + 20ms, now + 200ms});
    }
  }

  void probe_when_due() {
    const TimePoint now = SystemClock().now();
    if (probes_.empty() || *probes_.begin() > now) return;
    probes_.erase(probes_.begin(), probes_.upper_bound(now));
    bool again = false;
    for (auto& [id, peer] : peers_) {
      if (peer.dying) continue;
      const Sent sent = send_frame(id, peer.cut_off ? FrameKind::kReset : FrameKind::kProbe, {});
      if (sent == Sent::kGone) peer.dying = true;
      again = again || (peer.cut_off && !peer.dying);
    }
    if (again && probes_.empty()) probes_.insert(now + 200ms);
    // Dying peers are reported by read_messages() when nothing is left to read.
  }

  void send_outbox() {
    for (const OutMessage& message : outbox_.take()) {
      const auto id = static_cast<uint32_t>(message.connection);
      const auto peer = peers_.find(id);
      if (peer != peers_.end() && !peer->second.dying && !peer->second.cut_off) {
        const Sent sent = send_frame(id, FrameKind::kMessage, message.bytes);
        if (sent == Sent::kGone) peer->second.dying = true;
        if (sent == Sent::kFull) cut_off(id, peer->second);
      }
      outbox_.done(message);
    }
  }

  // The node is no longer heard; it is told to connect again as soon as it reads.
  void cut_off(uint32_t id, Peer& peer) {
    peer.cut_off = true;
    inbox_->push({InEvent::Kind::kGone, id, {}});
    probes_.insert(SystemClock().now() + 200ms);
  }

  Sent send_frame(uint32_t id, FrameKind kind, std::string_view payload) {
    char routing_id[kRoutingIdBytes] = {};
    std::memcpy(routing_id + 1, &id, sizeof id);
    try {
      const auto flags = zmq::send_flags::dontwait | zmq::send_flags::sndmore;
      if (!router_.send(zmq::buffer(routing_id), flags)) return Sent::kFull;
      zmq::message_t frame = make_frame(kind, peers_.at(id).connection, payload);
      if (!router_.send(frame, zmq::send_flags::dontwait)) return Sent::kFull;
      return Sent::kYes;
    } catch (const zmq::error_t& error) {
      CHECK_EQ(error.num(), EHOSTUNREACH);
      return Sent::kGone;
    }
  }

  void read_messages() {
    constexpr int kBatch = 256;
    read_again_ = false;
    zmq::message_t routing_id;
    zmq::message_t body;
    for (int i = 0; i < kBatch; ++i) {
      if (!router_.recv(routing_id, zmq::recv_flags::dontwait)) {
        report_dying();
        return;
      }
      bool more = routing_id.more();
      bool whole = false;
      for (int part = 0; more; ++part) {
        static_cast<void>(router_.recv(body, zmq::recv_flags::none));
        more = body.more();
        whole = part == 0 && !more;
      }
      if (whole) handle(routing_id, body);
      if (inbox_->full()) return;
    }
    read_again_ = true;
  }

  void handle(const zmq::message_t& routing_id, const zmq::message_t& body) {
    const std::optional<Frame> frame = parse_frame(body);
    if (routing_id.size() != kRoutingIdBytes || !frame) return;
    if (frame->kind != FrameKind::kMessage) return;
    uint32_t id = 0;
    std::memcpy(&id, static_cast<const char*>(routing_id.data()) + 1, sizeof id);
    Peer& peer = peers_[id];
    peer.connection = frame->connection;
    if (peer.cut_off) return;
    inbox_->push({InEvent::Kind::kMessage, id, std::string(frame->payload)});
  }

  // Everything is read, so nothing of these peers can follow.
  void report_dying() {
    for (auto peer = peers_.begin(); peer != peers_.end();) {
      if (!peer->second.dying) {
        ++peer;
        continue;
      }
      if (!peer->second.cut_off) inbox_->push({InEvent::Kind::kGone, peer->first, {}});
      peer = peers_.erase(peer);
    }
  }

  const ZmqOptions options_;
  WakeFd wake_;
  Outbox outbox_;
  std::shared_ptr<Inbox> inbox_;   // shared with batches posted to the loop
  std::atomic<bool> stop_{false};
  // Of the I/O thread, once it runs.
  zmq::context_t context_;
  zmq::socket_t router_;
  std::optional<SocketMonitor> monitor_;
  std::map<uint32_t, Peer> peers_;
  std::set<TimePoint> probes_;   // when to probe
  bool read_again_ = false;      // more may wait to be read
  std::thread thread_;
};

}  // namespace

std::unique_ptr<HubTransport> make_zmq_hub(EventLoop& loop, ZmqOptions options) {
  return std::make_unique<ZmqHub>(loop, options);
}

}  // namespace tandem::transport
