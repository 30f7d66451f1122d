#include "comm/transport/loopback/loopback.h"

#include <utility>

#include "comm/runtime/check.h"
#include "comm/transport/loopback/network_state.h"

namespace tandem::transport {
namespace {

using StatePtr = std::shared_ptr<LoopbackState>;   // shared by the network and its ends

class LoopbackHub final : public HubTransport {
 public:
  explicit LoopbackHub(StatePtr state)
      : state_(std::move(state)), end_(std::make_shared<LoopbackHubEnd>()) {}
  ~LoopbackHub() override {
    if (!end_->endpoint.empty()) state_->remove_hub(end_, /*kill=*/false);
  }

  std::string bind(const std::string& endpoint, HubHandlers handlers) override {
    CHECK(end_->endpoint.empty());
    end_->endpoint = endpoint;
    end_->handlers = std::move(handlers);
    state_->bind(end_);
    return end_->endpoint;
  }

  Status send(PeerId peer, std::string bytes) override {
    return state_->send_to_node(end_, peer.value, std::move(bytes));
  }

 private:
  StatePtr state_;
  std::shared_ptr<LoopbackHubEnd> end_;
};

class LoopbackNode final : public NodeTransport {
 public:
  LoopbackNode(StatePtr state, const std::string& name)
      : state_(std::move(state)), end_(std::make_shared<LoopbackNodeEnd>()) {
    end_->name = name;
    state_->add_node(end_);
  }
  ~LoopbackNode() override { state_->remove_node(end_, /*kill=*/false); }

  void connect(const std::string& endpoint, NodeHandlers handlers) override {
    CHECK(end_->endpoint.empty());
    CHECK(!endpoint.empty());
    end_->endpoint = endpoint;
    end_->handlers = std::move(handlers);
    state_->start_connecting(end_);
  }

  Status send(std::string bytes) override { return state_->send_to_hub(end_, std::move(bytes)); }

  void set_beacon(Duration interval, std::function<std::string()> make) override {
    CHECK(end_->endpoint.empty());
    CHECK(interval > Duration(0));
    end_->beacon_interval = interval;
    end_->make_beacon = std::move(make);
  }

 private:
  StatePtr state_;
  std::shared_ptr<LoopbackNodeEnd> end_;
};

}  // namespace

LoopbackNetwork::LoopbackNetwork(EventLoop& loop, Rng& rng, LoopbackOptions options)
    : state_(std::make_shared<LoopbackState>(loop, rng, options)) {}

LoopbackNetwork::~LoopbackNetwork() = default;

std::unique_ptr<HubTransport> LoopbackNetwork::make_hub() {
  return std::make_unique<LoopbackHub>(state_);
}

std::unique_ptr<NodeTransport> LoopbackNetwork::make_node(const std::string& name) {
  return std::make_unique<LoopbackNode>(state_, name);
}

void LoopbackNetwork::disconnect(const std::string& node) { state_->disconnect(node); }
void LoopbackNetwork::crash(const std::string& node) { state_->crash(node); }
void LoopbackNetwork::crash_hub(const std::string& endpoint) { state_->crash_hub(endpoint); }
void LoopbackNetwork::partition(const std::string& node, bool on) { state_->partition(node, on); }

void LoopbackNetwork::set_extra_delay(const std::string& node, Duration delay) {
  state_->set_extra_delay(node, delay);
}

void LoopbackNetwork::set_observer(std::function<void(const MessageEvent&)> observer) {
  state_->set_observer(std::move(observer));
}

LoopbackStats LoopbackNetwork::stats() const { return state_->stats(); }

}  // namespace tandem::transport
