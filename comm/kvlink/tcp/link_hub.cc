#include "comm/kvlink/tcp/link_hub.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "comm/runtime/check.h"

namespace tandem::kvlink {
namespace {

constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

}  // namespace

LinkHub::LinkHub(LinkContext& context, FileDescriptor listener)
    : context_(context), listener_(std::move(listener)) {
  context_.reactor.add(listener_.get(), EPOLLIN, *this);
}

LinkHub::~LinkHub() { context_.reactor.remove(listener_.get()); }

void LinkHub::service(const PeerAddress& peer) {
  Incarnation self;
  {
    std::lock_guard lock(context_.outboxes.mutex);
    const auto entry = context_.outboxes.entries.find(peer);
    if (entry == context_.outboxes.entries.end()) return;
    entry->second.scheduled = false;
    if (entry->second.lost || entry->second.outbox.empty()) return;
    self = context_.outboxes.self;
  }
  const auto found = outgoing_.find(peer);
  if (found != outgoing_.end()) return found->second->pump();
  OutgoingLinkOwner& owner = *this;
  auto link = std::make_unique<OutgoingLink>(peer, self, context_, owner);
  OutgoingLink& opened = *link;
  outgoing_.emplace(peer, std::move(link));
  opened.open();
}

void LinkHub::on_lost(OutgoingLink& link, const std::string& why) {
  auto node = outgoing_.extract(link.peer());
  CHECK(!node.empty());
  const PeerAddress peer = node.key();
  closed_.push_back(std::move(node.mapped()));
  bury_later();
  {
    std::lock_guard lock(context_.outboxes.mutex);
    if (context_.outboxes.self != link.self()) return;
    const auto entry = context_.outboxes.entries.find(peer);
    if (entry != context_.outboxes.entries.end()) entry->second.lost = true;
  }
  context_.delivery.post([&context = context_, self = link.self(), peer, why](
                             KvLinkEvents& events) {
    {
      std::lock_guard lock(context.outboxes.mutex);
      if (context.outboxes.self != self) return;
      context.outboxes.entries.erase(peer);
    }
    context.ledger.lose(peer);
    events.on_link_lost(peer, why);
  });
}

void LinkHub::send_committed(Incarnation to, GrantId grant, Epoch epoch) {
  for (const auto& link : incoming_) {
    if (link->source() == to) return link->send_committed(grant, epoch);
  }
}

void LinkHub::close_stale() {
  Incarnation self;
  {
    std::lock_guard lock(context_.outboxes.mutex);
    self = context_.outboxes.self;
  }
  std::erase_if(outgoing_, [&](const auto& item) { return item.second->self() != self; });
  std::vector<IncomingLink*> stale;
  for (const auto& link : incoming_) {
    if (link->stale()) stale.push_back(link.get());
  }
  for (IncomingLink* link : stale) link->close();
}

void LinkHub::resume_incoming() {
  for (const auto& link : incoming_) link->resume();
}

void LinkHub::on_welcomed(IncomingLink& link) {
  // The peer came back: what it had before is dead, even if we haven't noticed.
  const auto older = std::ranges::find_if(incoming_, [&](const auto& other) {
    return other.get() != &link && other->source() == link.source();
  });
  if (older != incoming_.end()) (*older)->close();
}

void LinkHub::on_closed(IncomingLink& link) {
  const auto found = std::ranges::find(incoming_, &link, &std::unique_ptr<IncomingLink>::get);
  CHECK(found != incoming_.end());
  closed_.push_back(std::move(*found));
  incoming_.erase(found);
  bury_later();
}

void LinkHub::bury_later() {
  context_.reactor.post([this] { closed_.clear(); });
}

void LinkHub::on_ready(uint32_t) {
  IncomingLinkOwner& owner = *this;
  for (;;) {
    FileDescriptor socket = accept_from(listener_);
    if (!socket.valid()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        context_.reactor.modify(listener_.get(), 0);  // else the wait would spin
        accept_again_at_ = context_.reactor.now() + kAcceptPause;
      }
      return;
    }
    if (incoming_.size() >= context_.options.max_connections) {
      ++context_.counters.refused_connections;
      continue;  // closes it
    }
    incoming_.push_back(std::make_unique<IncomingLink>(std::move(socket), context_, owner));
  }
}

void LinkHub::on_deadline() {
  accept_again_at_.reset();
  context_.reactor.modify(listener_.get(), EPOLLIN);
}

}  // namespace tandem::kvlink
