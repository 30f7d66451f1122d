// The node end: a DEALER socket, owned by one I/O thread.
#include <atomic>
#include <cerrno>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "comm/runtime/check.h"
#include "comm/transport/zmq/queues.h"
#include "comm/transport/zmq/sockets.h"

namespace tandem::transport {
namespace {
using namespace std::chrono_literals;

class ZmqNode final : public NodeTransport {
 public:
  ZmqNode(EventLoop& loop, ZmqOptions options)
      : options_(options),
        outbox_(options.limits, wake_),
        inbox_(std::make_shared<Inbox>(loop, options.limits.max_inbound_messages, wake_)),
        dealer_(context_, zmq::socket_type::dealer) {}

  ~ZmqNode() override {
    inbox_->stop();
    if (!thread_.joinable()) return;
    stop_ = true;
    wake_.wake();
    thread_.join();
  }

  void connect(const std::string& endpoint, NodeHandlers handlers) override {
    CHECK(!thread_.joinable());
    endpoint_ = endpoint;
    inbox_->set_handler([this, handlers = std::move(handlers)](InEvent event) {
      handle_on_loop(handlers, std::move(event));
    });
    configure_socket(dealer_, options_);
    dealer_.set(zmq::sockopt::immediate, true);
    dealer_.set(zmq::sockopt::reconnect_ivl,
                static_cast<int>(options_.reconnect_interval / Duration(1ms)));
    dealer_.set(zmq::sockopt::connect_timeout, 2000);
    monitor_.emplace(context_, dealer_, "inproc://monitor");
    try {
      dealer_.connect(endpoint);
    } catch (const zmq::error_t& error) {
      throw endpoint_error("connect to", endpoint, error.num());
    }
    thread_ = std::thread([this] { run(); });   // the sockets belong to it from here on
  }

  Status send(std::string bytes) override {
    if (connected_ == 0) {
      return Error{ErrorCode::kUnavailable, "not connected to " + endpoint_, {}};
    }
    return outbox_.push({connected_, std::move(bytes)});
  }

  void set_beacon(Duration interval, std::function<std::string()> make) override {
    CHECK(!thread_.joinable());
    CHECK(!make_beacon_);
    CHECK_GE(interval, Duration(1ms));
    beacon_interval_ = interval;
    make_beacon_ = std::move(make);
  }

 private:
  void handle_on_loop(const NodeHandlers& handlers, InEvent event) {
    switch (event.kind) {
      case InEvent::Kind::kConnected:
        connected_ = event.connection;
        if (handlers.on_connected) handlers.on_connected();
        break;
      case InEvent::Kind::kGone:
        connected_ = 0;
        if (handlers.on_disconnected) handlers.on_disconnected();
        break;
      case InEvent::Kind::kMessage:
        if (handlers.on_message) handlers.on_message(std::move(event.bytes));
        break;
    }
  }

  void run() {
    while (!stop_) {
      const bool reading = !inbox_->full();
      const int wanted = (reading ? ZMQ_POLLIN : 0) | (unsent_.empty() ? 0 : ZMQ_POLLOUT);
      zmq::pollitem_t items[] = {
          {nullptr, wake_.fd(), ZMQ_POLLIN, 0},
          {monitor_->socket().handle(), 0, ZMQ_POLLIN, 0},
          {dealer_.handle(), 0, static_cast<short>(wanted), 0},
      };
      try {
        zmq::poll(items, wanted != 0 ? 3 : 2, poll_timeout());
      } catch (const zmq::error_t& error) {
        CHECK_EQ(error.num(), EINTR);
        continue;
      }
      if (items[0].revents != 0) wake_.clear();
      read_monitor();
      for (OutMessage& message : outbox_.take()) unsent_.push_back(std::move(message));
      beacon_when_due();
      send_unsent();
      if (reading) read_messages();
    }
    monitor_.reset();
    dealer_.close();
  }

  std::chrono::milliseconds poll_timeout() const {
    if (read_again_) return 0ms;
    if (!make_beacon_ || !up_) return std::chrono::milliseconds(-1);
    const auto wait = next_beacon_ - SystemClock().now();
    if (wait <= Duration(0)) return 0ms;
    return std::chrono::ceil<std::chrono::milliseconds>(wait);
  }

  void read_monitor() {
    for (int event = monitor_->next(); event != 0; event = monitor_->next()) {
      if (event == ZMQ_EVENT_DISCONNECTED) go_down();
      if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
        go_down();
        up_ = true;
        ++connection_;
        next_beacon_ = SystemClock().now() + beacon_interval_;
        inbox_->push({InEvent::Kind::kConnected, connection_, {}});
      }
    }
  }

  void go_down() {
    if (!up_) return;
    up_ = false;
    inbox_->push({InEvent::Kind::kGone, connection_, {}});
  }

  void beacon_when_due() {
    const TimePoint now = SystemClock().now();
    if (!make_beacon_ || !up_ || now < next_beacon_) return;
    next_beacon_ = now + beacon_interval_;
    const std::string bytes = make_beacon_();
    if (bytes.empty() || bytes.size() > options_.limits.max_message_bytes) return;
    if (!unsent_.empty()) return;   // the link is full: it is not silent
    zmq::message_t frame = make_frame(FrameKind::kMessage, connection_, bytes);
    static_cast<void>(dealer_.send(frame, zmq::send_flags::dontwait));
  }

  void send_unsent() {
    while (!unsent_.empty()) {
      const OutMessage& message = unsent_.front();
      if (up_ && message.connection == connection_) {
        zmq::message_t frame = make_frame(FrameKind::kMessage, connection_, message.bytes);
        if (!dealer_.send(frame, zmq::send_flags::dontwait)) return;
      }   // else it was meant for a connection that is gone
      outbox_.done(message);
      unsent_.pop_front();
    }
  }

  void read_messages() {
    constexpr int kBatch = 256;
    read_again_ = false;
    zmq::message_t body;
    for (int i = 0; i < kBatch; ++i) {
      if (!dealer_.recv(body, zmq::recv_flags::dontwait)) return;
      bool whole = !body.more();
      while (body.more()) static_cast<void>(dealer_.recv(body, zmq::recv_flags::none));
      const std::optional<Frame> frame = parse_frame(body);
      if (!whole || !frame) continue;
      read_monitor();   // a disconnect that came first is told first
      if (!up_ || frame->connection != connection_) continue;
      if (frame->kind == FrameKind::kReset) {
        reconnect();
        return;
      }
      if (frame->kind == FrameKind::kMessage) {
        inbox_->push({InEvent::Kind::kMessage, connection_, std::string(frame->payload)});
        if (inbox_->full()) return;
      }
    }
    read_again_ = true;
  }

  void reconnect() {
    go_down();
    dealer_.disconnect(endpoint_);
    dealer_.connect(endpoint_);
  }

  const ZmqOptions options_;
  WakeFd wake_;
  Outbox outbox_;
  std::shared_ptr<Inbox> inbox_;   // shared with batches posted to the loop
  std::atomic<bool> stop_{false};
  std::string endpoint_;
  uint64_t connected_ = 0;         // loop thread: the connection its handlers know of, 0 = none
  Duration beacon_interval_{0};
  std::function<std::string()> make_beacon_;
  // Of the I/O thread, once it runs.
  zmq::context_t context_;
  zmq::socket_t dealer_;
  std::optional<SocketMonitor> monitor_;
  bool up_ = false;
  uint32_t connection_ = 0;        // counts the connections of this node
  TimePoint next_beacon_{};
  bool read_again_ = false;
  std::deque<OutMessage> unsent_;  // taken from the outbox, in order
  std::thread thread_;
};

}  // namespace

std::unique_ptr<NodeTransport> make_zmq_node(EventLoop& loop, ZmqOptions options) {
  return std::make_unique<ZmqNode>(loop, options);
}

}  // namespace tandem::transport
