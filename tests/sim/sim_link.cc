#include "tests/sim/sim_link.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/runtime/check.h"
#include "comm/runtime/planted.h"

namespace tandem::sim {

SimLink::SimLink(SimLinkNetwork& network, NodeLoop& loop, std::string name, LinkHooks hooks)
    : network_(network), loop_(loop), name_(std::move(name)), hooks_(std::move(hooks)) {
  network_.links_[endpoint()] = this;
}

SimLink::~SimLink() {
  *life_ = false;
  const auto found = network_.links_.find(endpoint());
  if (found != network_.links_.end() && found->second == this) network_.links_.erase(found);
}

void SimLink::reincarnate(Incarnation self) {
  self_ = self;
  outgoing_.clear();
  secrets_.clear();
  landings_.clear();
}

void SimLink::push(const kvlink::PeerAddress& peer, const kvlink::Part& part) {
  if (dead_ || !hooks_.at("link_push", true, true)) return;
  Frame frame;
  frame.part = part;
  outgoing_[peer].frames.push_back(std::move(frame));
  pump(peer);
  (void)hooks_.at("link_push", true, false);
}

void SimLink::commit(const kvlink::PeerAddress& peer, const wire::Commit& commit) {
  if (dead_ || !hooks_.at("link_commit", true, true)) return;
  Frame frame;
  frame.is_commit = true;
  frame.commit = commit;
  outgoing_[peer].frames.push_back(std::move(frame));
  pump(peer);
  (void)hooks_.at("link_commit", true, false);
}

void SimLink::drop(GrantId grant, Epoch epoch) {
  for (auto& [peer, outgoing] : outgoing_) {
    std::erase_if(outgoing.frames, [&](const Frame& frame) {
      return frame.is_commit ? frame.commit.grant() == grant.value &&
                                   frame.commit.epoch() == epoch.value
                             : frame.part.grant == grant && frame.part.epoch == epoch;
    });
  }
}

void SimLink::open_landing(kvlink::Landing landing) {
  CHECK_EQ(landing.chain_hashes.size(), landing.blocks.size());
  landings_[landing.grant] = std::move(landing);
}

// Sends one frame at a time: the delay between two is the bandwidth.
void SimLink::pump(const kvlink::PeerAddress& peer) {
  Outgoing& outgoing = outgoing_[peer];
  if (outgoing.busy || outgoing.frames.empty()) return;
  outgoing.busy = true;
  const uint64_t generation = outgoing.generation;
  loop_.after(network_.delay(), [this, peer, generation, life = life_] {
    if (!*life || dead_) return;
    const auto found = outgoing_.find(peer);
    if (found == outgoing_.end() || found->second.generation != generation) return;
    found->second.busy = false;
    if (found->second.frames.empty()) return;
    SimLink* target = network_.find(peer.endpoint);
    const bool refused = target == nullptr || target->dead_ || target->self_ != peer.incarnation ||
                         network_.blocked(name_, target->name_);
    if (refused) {
      lose(peer, "connection refused");
      return;
    }
    Frame frame = take_next(found->second);
    if (!frame.is_commit) {
      frame.payload.assign(frame.part.bytes.begin(), frame.part.bytes.end());
      frame.part.bytes = {};
      events_->on_part_sent(frame.part.grant, frame.part.epoch, frame.part.block_index);
      const auto again = outgoing_.find(peer);
      if (again == outgoing_.end()) return;
    }
    if (!frame.is_commit && network_.corruption_ > 0 &&
        network_.rng_.below(10000) < static_cast<uint64_t>(network_.corruption_ * 10000)) {
      ++network_.num_corrupted_;
      frame.payload[network_.rng_.below(frame.payload.size())] ^= std::byte{1};
      frame.part.chain_hash.low ^= 1;  // stands for a failing checksum
    }
    const Incarnation from = self_;
    target->loop_.post([target, from, peer, frame = std::move(frame)]() mutable {
      target->arrive(from, peer.secret, peer.incarnation, std::move(frame));
    });
    pump(peer);
  });
}

// Grants take turns at random; within a grant the order holds.
SimLink::Frame SimLink::take_next(Outgoing& outgoing) {
  const auto grant_of = [](const Frame& frame) {
    return frame.is_commit ? GrantId{frame.commit.grant()} : frame.part.grant;
  };
  const GrantId grant = grant_of(outgoing.frames[network_.rng_.below(outgoing.frames.size())]);
  const auto first = std::find_if(outgoing.frames.begin(), outgoing.frames.end(),
                                  [&](const Frame& frame) { return grant_of(frame) == grant; });
  Frame frame = std::move(*first);
  outgoing.frames.erase(first);
  return frame;
}

void SimLink::lose(const kvlink::PeerAddress& peer, const std::string& why) {
  Outgoing& outgoing = outgoing_[peer];
  outgoing.frames.clear();
  outgoing.busy = false;
  ++outgoing.generation;
  loop_.post([this, peer, why, life = life_] {
    if (*life && !dead_) events_->on_link_lost(peer, why);
  });
}

void SimLink::arrive(Incarnation from, uint64_t secret, Incarnation to, Frame frame) {
  if (dead_ || to != self_) return;
  const auto expected = secrets_.find(from);
  if (expected == secrets_.end() || expected->second != secret) return;
  const char* name = frame.is_commit ? "link_commit" : "link_push";
  if (!hooks_.at(name, false, true)) return;
  if (frame.is_commit) {
    events_->on_commit(from, frame.commit);
    network_.maybe_cut_after_commit(name_, from);
  } else {
    land(frame, from);
  }
  (void)hooks_.at(name, false, false);
}

void SimLink::land(const Frame& frame, Incarnation from) {
  const auto found = landings_.find(frame.part.grant);
  if (found == landings_.end()) return;
  kvlink::Landing& landing = found->second;
  const uint32_t index = frame.part.block_index;
  const bool current = landing.epoch == frame.part.epoch || planted(Bug::kAcceptOldEpoch);
  if (!current || landing.source != from) return;
  if (index < landing.first_block || index >= landing.blocks.size()) return;
  if (landing.chain_hashes[index] != frame.part.chain_hash) {
    events_->on_part(landing.grant, landing.epoch, index, 0, frame.payload.size(),
                     kvlink::PartStatus::kCorrupt);
    return;
  }
  CHECK_EQ(landing.blocks[index].size(), frame.payload.size());
  std::memcpy(landing.blocks[index].data(), frame.payload.data(), frame.payload.size());
  events_->on_part(landing.grant, landing.epoch, index, 0, frame.payload.size(),
                   kvlink::PartStatus::kVerified);
}

void SimLink::committed(Incarnation to, GrantId grant, Epoch epoch) {
  if (dead_ || !hooks_.at("link_committed", true, true)) return;
  for (const auto& [endpoint, link] : network_.links_) {
    if (link->self_ != to || network_.blocked(name_, link->name_)) continue;
    SimLink* target = link;
    const Incarnation expected = to;
    // Looked up again on arrival: the process may be gone by then.
    const uint64_t cuts = network_.num_cuts_;
    target->loop_.after(network_.delay(), [target, grant, epoch, expected, cuts] {
      if (target->dead_ || target->self_ != expected) return;
      if (target->network_.num_cuts_ != cuts) return;  // went down with its connection
      if (!target->hooks_.at("link_committed", false, true)) return;
      target->events_->on_committed(grant, epoch);
      (void)target->hooks_.at("link_committed", false, false);
    });
  }
  (void)hooks_.at("link_committed", true, false);
}

SimLink* SimLinkNetwork::find(const std::string& endpoint) {
  const auto found = links_.find(endpoint);
  return found == links_.end() ? nullptr : found->second;
}

bool SimLinkNetwork::blocked(const std::string& a, const std::string& b) const {
  const auto found = blocked_.find(std::minmax(a, b));
  return found != blocked_.end() && loop_.now() < found->second;
}

void SimLinkNetwork::maybe_cut_after_commit(const std::string& receiver, Incarnation from) {
  if (cut_after_commit_percent_ == 0 || rng_.below(100) >= cut_after_commit_percent_) return;
  for (const auto& [endpoint, link] : links_) {
    if (link->self_ == from) {
      cut(receiver, link->name_);
      return;
    }
  }
}

void SimLinkNetwork::block(const std::string& a, const std::string& b, TimePoint until) {
  blocked_[std::minmax(a, b)] = until;
  cut(a, b);
}

void SimLinkNetwork::cut(const std::string& a, const std::string& b) {
  ++num_cuts_;
  for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
    SimLink* link = find("sim://" + from);
    if (link == nullptr || link->dead_) continue;
    std::vector<kvlink::PeerAddress> hit;
    for (const auto& [peer, outgoing] : link->outgoing_) {
      if (peer.endpoint == "sim://" + to) hit.push_back(peer);
    }
    for (const kvlink::PeerAddress& peer : hit) link->lose(peer, "connection reset");
  }
}

}  // namespace tandem::sim
