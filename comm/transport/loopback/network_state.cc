#include "comm/transport/loopback/network_state.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "comm/runtime/check.h"

namespace tandem::transport {

LoopbackState::LoopbackState(EventLoop& loop, Rng& rng, LoopbackOptions options)
    : loop_(loop), rng_(rng), options_(options) {
  CHECK_LE(options.min_delay, options.max_delay);
}

Duration LoopbackState::random_delay(const std::string& node) {
  const auto span = static_cast<uint64_t>((options_.max_delay - options_.min_delay).count());
  const Duration delay = options_.min_delay + Duration(rng_.below(span + 1));
  const auto fault = faults_.find(node);
  return fault == faults_.end() ? delay : delay + fault->second.extra_delay;
}

void LoopbackState::later(Duration delay, std::function<void(LoopbackState&)> action) {
  loop_.after(delay, [weak = weak_from_this(), action = std::move(action)] {
    if (const auto self = weak.lock()) action(*self);
  });
}

void LoopbackState::observe(MessagePoint point, const std::string& node, bool to_hub,
                            const std::string& bytes, uint64_t number) {
  if (observer_) observer_({point, node, to_hub, bytes, number});
}

// --- ends ---

void LoopbackState::bind(const HubEndPtr& hub) {
  if (hub->endpoint.ends_with(":0")) {
    hub->endpoint = hub->endpoint.substr(0, hub->endpoint.size() - 1) +
                    std::to_string(next_port_++);
  }
  if (!hubs_.emplace(hub->endpoint, hub).second) {
    throw StartupError("can't listen on " + hub->endpoint +
                       ": address already in use; choose another port");
  }
}

void LoopbackState::add_node(const NodeEndPtr& node) {
  CHECK(!nodes_.contains(node->name));
  nodes_.emplace(node->name, node);
}

void LoopbackState::remove_hub(const HubEndPtr& hub, bool kill) {
  if (!hub->alive) return;
  hub->alive = false;
  const auto bound = hubs_.find(hub->endpoint);
  if (bound != hubs_.end() && bound->second == hub) hubs_.erase(bound);
  std::vector<uint64_t> mine;
  for (const auto& [id, link] : links_) {
    if (link.hub == hub) mine.push_back(id);
  }
  for (const uint64_t id : mine) {
    if (kill) lose_random_suffix(links_.at(id).to_node);
    close_pipe(id, /*to_hub=*/false);
    mute_pipe(id, /*to_hub=*/true);
  }
}

void LoopbackState::remove_node(const NodeEndPtr& node, bool kill) {
  if (!node->alive) return;
  node->alive = false;
  nodes_.erase(node->name);
  std::vector<uint64_t> mine;
  for (const auto& [id, link] : links_) {
    if (link.node == node) mine.push_back(id);
  }
  for (const uint64_t id : mine) {
    if (kill) lose_random_suffix(links_.at(id).to_hub);
    close_pipe(id, /*to_hub=*/true);
    mute_pipe(id, /*to_hub=*/false);
  }
}

void LoopbackState::connect_later(const NodeEndPtr& node, Duration delay) {
  later(delay, [node](LoopbackState& self) { self.try_connect(node); });
}

void LoopbackState::try_connect(const NodeEndPtr& node) {
  if (!node->alive) return;
  const auto hub = hubs_.find(node->endpoint);
  if (hub == hubs_.end() || faults_[node->name].partitioned) {
    connect_later(node, options_.reconnect_delay);
    return;
  }
  const uint64_t id = next_link_++;
  links_.emplace(id, Link{hub->second, node, {}, {}});
  node->link = id;
  if (node->make_beacon) beacon_later(node, id);
  if (node->handlers.on_connected) node->handlers.on_connected();
}

void LoopbackState::beacon_later(const NodeEndPtr& node, uint64_t link) {
  later(node->beacon_interval, [node, link](LoopbackState& self) {
    if (!node->alive || node->link != link) return;
    std::string bytes = node->make_beacon();
    if (!bytes.empty()) static_cast<void>(self.send_to_hub(node, std::move(bytes)));
    self.beacon_later(node, link);
  });
}

// --- messages ---

Status LoopbackState::send_to_node(const HubEndPtr& hub, uint64_t link, std::string bytes) {
  if (Status size = check_message_size(options_.limits, bytes); !size.ok()) return size;
  const auto found = links_.find(link);
  const bool open = found != links_.end() && hub->alive && found->second.hub == hub;
  if (!open) {
    ++stats_.lost;
    return {};
  }
  return send(link, /*to_hub=*/false, std::move(bytes));
}

Status LoopbackState::send_to_hub(const NodeEndPtr& node, std::string bytes) {
  if (Status size = check_message_size(options_.limits, bytes); !size.ok()) return size;
  if (!node->alive || node->link == 0) {
    return Error{ErrorCode::kUnavailable, "not connected to " + node->endpoint, {}};
  }
  return send(node->link, /*to_hub=*/true, std::move(bytes));
}

Status LoopbackState::send(uint64_t link_id, bool to_hub, std::string bytes) {
  const TransportLimits& limits = options_.limits;
  const std::string node = links_.at(link_id).node->name;
  const Pipe& before = pipe(links_.at(link_id), to_hub);
  if (before.items.size() >= limits.max_outbound_messages ||
      before.bytes + bytes.size() > limits.max_outbound_bytes) {
    return Error{ErrorCode::kExhausted, "the outbound control queue is full", {}};
  }
  const uint64_t number = next_message_++;
  const std::string copy = observer_ ? bytes : std::string();
  observe(MessagePoint::kSending, node, to_hub, copy, number);
  const auto link = links_.find(link_id);
  if (link == links_.end() || pipe(link->second, to_hub).closing) {
    ++stats_.lost;
    return {};
  }
  enqueue(link_id, to_hub, {{}, std::move(bytes), number});
  observe(MessagePoint::kSent, node, to_hub, copy, number);
  return {};
}

void LoopbackState::enqueue(uint64_t link_id, bool to_hub, Item item) {
  Link& link = links_.at(link_id);
  Pipe& into = pipe(link, to_hub);
  item.due = std::max(loop_.now() + random_delay(link.node->name), into.last_due);
  into.last_due = item.due;
  into.bytes += item.bytes.size();
  const Duration delay = item.due - loop_.now();
  into.items.push_back(std::move(item));
  later(delay, [link_id, to_hub](LoopbackState& self) { self.pump(link_id, to_hub); });
}

// Delivers what is due. Every step looks the link up again: a handler may have ended it.
void LoopbackState::pump(uint64_t link_id, bool to_hub) {
  for (;;) {
    const auto link = links_.find(link_id);
    if (link == links_.end() || faults_[link->second.node->name].partitioned) return;
    Pipe& from = pipe(link->second, to_hub);
    if (from.items.empty() || from.items.front().due > loop_.now()) return;
    Item item = std::move(from.items.front());
    from.items.pop_front();
    from.bytes -= item.bytes.size();
    if (item.number == 0) {
      deliver_end(link_id, to_hub);
    } else {
      deliver(link_id, to_hub, std::move(item));
    }
  }
}

void LoopbackState::deliver(uint64_t link_id, bool to_hub, Item item) {
  const HubEndPtr hub = links_.at(link_id).hub;
  const NodeEndPtr node = links_.at(link_id).node;
  observe(MessagePoint::kDelivering, node->name, to_hub, item.bytes, item.number);
  if (!(to_hub ? hub->alive : node->alive)) {
    ++stats_.lost;
    return;
  }
  ++stats_.delivered;
  if (to_hub) {
    hub->known.insert(link_id);
    if (hub->handlers.on_message) hub->handlers.on_message(PeerId(link_id), std::move(item.bytes));
  } else if (node->handlers.on_message) {
    node->handlers.on_message(std::move(item.bytes));
  }
  observe(MessagePoint::kHandled, node->name, to_hub, {}, item.number);
}

// --- ends of connections ---

void LoopbackState::lose(Pipe& from, size_t keep) {
  while (from.items.size() > keep) {
    from.bytes -= from.items.back().bytes.size();
    if (from.items.back().number == 0) {
      from.closing = false;   // the marker goes too; whoever cuts the pipe sets a new one
    } else {
      ++stats_.lost;
    }
    from.items.pop_back();
  }
}

// Tells the receiver of this direction, after what is still under way, that the connection ended.
void LoopbackState::close_pipe(uint64_t link_id, bool to_hub) {
  Pipe& of = pipe(links_.at(link_id), to_hub);
  if (of.closing || of.done) return;
  of.closing = true;
  enqueue(link_id, to_hub, {{}, {}, 0});
}

// The receiver of this direction is gone: nothing arrives there any more.
void LoopbackState::mute_pipe(uint64_t link_id, bool to_hub) {
  Pipe& of = pipe(links_.at(link_id), to_hub);
  lose(of, 0);
  of.closing = true;
  of.done = true;
  erase_if_done(link_id);
}

void LoopbackState::deliver_end(uint64_t link_id, bool to_hub) {
  const HubEndPtr hub = links_.at(link_id).hub;
  const NodeEndPtr node = links_.at(link_id).node;
  pipe(links_.at(link_id), to_hub).done = true;
  erase_if_done(link_id);
  if (to_hub) {
    const bool known = hub->known.erase(link_id) > 0;
    if (known && hub->alive && hub->handlers.on_peer_gone) {
      hub->handlers.on_peer_gone(PeerId(link_id));
    }
    return;
  }
  if (!node->alive || node->link != link_id) return;
  node->link = 0;
  connect_later(node, options_.reconnect_delay);
  if (node->handlers.on_disconnected) node->handlers.on_disconnected();
}

void LoopbackState::erase_if_done(uint64_t link_id) {
  const auto link = links_.find(link_id);
  if (link == links_.end()) return;
  if (link->second.to_hub.done && link->second.to_node.done) links_.erase(link);
}

// --- faults ---

void LoopbackState::disconnect(const std::string& node) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end() || found->second->link == 0) return;
  const uint64_t id = found->second->link;
  for (const bool to_hub : {true, false}) {
    Pipe& of = pipe(links_.at(id), to_hub);
    if (of.done) continue;
    lose_random_suffix(of);
    close_pipe(id, to_hub);
  }
}

void LoopbackState::crash(const std::string& node) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return;
  remove_node(NodeEndPtr(found->second), /*kill=*/true);
}

void LoopbackState::crash_hub(const std::string& endpoint) {
  const auto found = hubs_.find(endpoint);
  if (found == hubs_.end()) return;
  remove_hub(HubEndPtr(found->second), /*kill=*/true);
}

void LoopbackState::partition(const std::string& node, bool on) {
  Fault& fault = faults_[node];
  if (fault.partitioned == on) return;
  fault.partitioned = on;
  const uint64_t number = ++fault.partition_number;
  std::vector<uint64_t> mine;
  for (const auto& [id, link] : links_) {
    if (link.node->name == node) mine.push_back(id);
  }
  if (!on) {
    for (const uint64_t id : mine) {
      later(Duration(0), [id](LoopbackState& self) { self.pump(id, true); });
      later(Duration(0), [id](LoopbackState& self) { self.pump(id, false); });
    }
    return;
  }
  later(options_.detect_delay, [node, number, mine](LoopbackState& self) {
    if (self.faults_[node].partition_number != number) return;
    for (const uint64_t id : mine) {
      for (const bool to_hub : {true, false}) {
        const auto link = self.links_.find(id);
        if (link == self.links_.end()) break;
        Pipe& of = self.pipe(link->second, to_hub);
        if (of.done) continue;
        self.lose(of, 0);
        of.closing = true;
        self.deliver_end(id, to_hub);
      }
    }
  });
}

}  // namespace tandem::transport
