#pragma once
// The state behind LoopbackNetwork: links, hubs, nodes, and the events that move messages.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "comm/transport/loopback/loopback.h"

namespace tandem::transport {

// What one hub or node end shares with the network. alive turns false at crash or destruction:
// from then on no handler of the end runs.
struct LoopbackHubEnd {
  std::string endpoint;
  HubHandlers handlers;
  bool alive = true;
  std::set<uint64_t> known;   // peers it has heard of and not been told the end of
};

struct LoopbackNodeEnd {
  std::string name;
  std::string endpoint;
  NodeHandlers handlers;
  bool alive = true;
  uint64_t link = 0;          // the connection the handlers know of; 0 = not connected
  Duration beacon_interval{0};
  std::function<std::string()> make_beacon;
};

// Owned by the network and its ends; loop thread only. Every handler it schedules holds a weak
// reference, so nothing runs once all owners are gone.
class LoopbackState : public std::enable_shared_from_this<LoopbackState> {
 public:
  using HubEndPtr = std::shared_ptr<LoopbackHubEnd>;     // shared by the end and the network
  using NodeEndPtr = std::shared_ptr<LoopbackNodeEnd>;   // likewise

  LoopbackState(EventLoop& loop, Rng& rng, LoopbackOptions options);

  void bind(const HubEndPtr& hub);   // throws StartupError when the endpoint is taken
  void add_node(const NodeEndPtr& node);
  void start_connecting(const NodeEndPtr& node) { connect_later(node, random_delay(node->name)); }
  Status send_to_node(const HubEndPtr& hub, uint64_t link, std::string bytes);
  Status send_to_hub(const NodeEndPtr& node, std::string bytes);
  // kill: a random suffix of what the end has sent is lost too.
  void remove_hub(const HubEndPtr& hub, bool kill);
  void remove_node(const NodeEndPtr& node, bool kill);

  void disconnect(const std::string& node);
  void crash(const std::string& node);
  void crash_hub(const std::string& endpoint);
  void partition(const std::string& node, bool on);
  void set_extra_delay(const std::string& node, Duration delay) {
    faults_[node].extra_delay = delay;
  }
  void set_observer(std::function<void(const MessageEvent&)> observer) {
    observer_ = std::move(observer);
  }
  const LoopbackOptions& options() const { return options_; }
  const LoopbackStats& stats() const { return stats_; }

 private:
  struct Item {
    TimePoint due;
    std::string bytes;
    uint64_t number = 0;   // 0 marks the end of the connection
  };
  struct Pipe {
    std::deque<Item> items;
    size_t bytes = 0;
    TimePoint last_due{};
    bool closing = false;   // an end marker is queued or was delivered
    bool done = false;      // the receiver was told, or is dead
  };
  struct Link {
    HubEndPtr hub;
    NodeEndPtr node;
    Pipe to_hub;
    Pipe to_node;
  };
  struct Fault {
    bool partitioned = false;
    uint64_t partition_number = 0;
    Duration extra_delay{0};
  };

  Pipe& pipe(Link& link, bool to_hub) { return to_hub ? link.to_hub : link.to_node; }
  Duration random_delay(const std::string& node);
  void later(Duration delay, std::function<void(LoopbackState&)> action);
  void connect_later(const NodeEndPtr& node, Duration delay);
  void try_connect(const NodeEndPtr& node);
  void beacon_later(const NodeEndPtr& node, uint64_t link);
  Status send(uint64_t link_id, bool to_hub, std::string bytes);
  void enqueue(uint64_t link_id, bool to_hub, Item item);
  void pump(uint64_t link_id, bool to_hub);
  void deliver(uint64_t link_id, bool to_hub, Item item);
  void deliver_end(uint64_t link_id, bool to_hub);
  void lose(Pipe& from, size_t keep);
  void lose_random_suffix(Pipe& from) { lose(from, rng_.below(from.items.size() + 1)); }
  void close_pipe(uint64_t link_id, bool to_hub);
  void mute_pipe(uint64_t link_id, bool to_hub);
  void erase_if_done(uint64_t link_id);
  void observe(MessagePoint point, const std::string& node, bool to_hub, const std::string& bytes,
               uint64_t number);

  EventLoop& loop_;
  Rng& rng_;
  const LoopbackOptions options_;
  std::map<std::string, HubEndPtr> hubs_;     // bound, by endpoint
  std::map<std::string, NodeEndPtr> nodes_;   // alive, by name
  std::map<std::string, Fault> faults_;       // by node name; outlive the node
  std::map<uint64_t, Link> links_;
  uint64_t next_link_ = 1;
  uint64_t next_message_ = 1;
  uint64_t next_port_ = 1;
  LoopbackStats stats_;
  std::function<void(const MessageEvent&)> observer_;
};

}  // namespace tandem::transport
