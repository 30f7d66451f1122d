#pragma once
// LinkHub: all connections of one TcpKvLink: accepts incoming ones, opens outgoing ones on demand,
// forgets dead ones. At most one live connection per peer incarnation and direction.
// Owned by TcpKvLink; link thread only (constructed before it starts, destroyed after its end).

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/kvlink/tcp/incoming_link.h"
#include "comm/kvlink/tcp/outgoing_link.h"

namespace tandem::kvlink {

class LinkHub final : private Pollable, private OutgoingLinkOwner, private IncomingLinkOwner {
 public:
  LinkHub(LinkContext& context, FileDescriptor listener);
  ~LinkHub() override;

  // The peer's outbox has work.
  void service(const PeerAddress& peer);
  void send_committed(Incarnation to, GrantId grant, Epoch epoch);
  // Closes the links of ended sessions and of this process's former incarnations, silently.
  void close_stale();
  void resume_incoming();

 private:
  void on_ready(uint32_t epoll_events) override;
  std::optional<TimePoint> deadline() const override { return accept_again_at_; }
  void on_deadline() override;
  void on_lost(OutgoingLink& link, const std::string& why) override;
  void on_welcomed(IncomingLink& link) override;
  void on_closed(IncomingLink& link) override;
  void bury_later();

  LinkContext& context_;
  FileDescriptor listener_;
  std::optional<TimePoint> accept_again_at_;  // set while out of file descriptors
  std::map<PeerAddress, std::unique_ptr<OutgoingLink>> outgoing_;
  std::vector<std::unique_ptr<IncomingLink>> incoming_;
  // Closed links, destroyed once no call of theirs is on the stack.
  std::vector<std::unique_ptr<Pollable>> closed_;
};

}  // namespace tandem::kvlink
