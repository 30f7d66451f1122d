#pragma once
// IncomingLink: the accepting end of a pair. Checks the greeting, lands parts in a ring of its own,
// has them verified and copied by the registry, and passes commits on.
// Owned by LinkHub; link thread only; never writes to pool memory itself.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/kvlink/tcp/commit_times.h"
#include "comm/kvlink/tcp/frame_reader.h"
#include "comm/kvlink/tcp/link_context.h"
#include "comm/kvlink/tcp/receive_ring.h"

namespace tandem::kvlink {

class IncomingLink;

class IncomingLinkOwner {
 public:
  virtual ~IncomingLinkOwner() = default;
  // The greeting of this incarnation was accepted.
  virtual void on_welcomed(IncomingLink& link) = 0;
  // The link has closed its socket and does nothing any more; not to be destroyed in the call.
  virtual void on_closed(IncomingLink& link) = 0;
};

class IncomingLink final : public Pollable, private FrameSink {
 public:
  IncomingLink(FileDescriptor socket, LinkContext& context, IncomingLinkOwner& owner);
  ~IncomingLink() override;

  // Of the peer; 0 before the greeting.
  Incarnation source() const { return session_.source; }
  // Its session has ended.
  bool stale() const { return ring_ && !context_.registry.is_current(session_); }
  void send_committed(GrantId grant, Epoch epoch);
  // Reads again after a backlog.
  void resume();
  // Closes the connection; the owner is told.
  void close();

  void on_ready(uint32_t epoll_events) override;
  std::optional<TimePoint> deadline() const override;
  void on_deadline() override;

 private:
  Result<std::span<std::byte>> on_header(FrameKind kind, std::string_view header) override;
  Status on_payload() override;

  Status take_hello(std::string_view header);
  Result<Session> admit(const wire::LinkHello& hello) const;
  Result<std::span<std::byte>> take_push(std::string_view header);
  Status take_commit(std::string_view header);
  void land(const wire::Push& header, std::span<std::byte> bytes);
  Status flush();
  void update_interest();

  LinkContext& context_;
  IncomingLinkOwner& owner_;
  FileDescriptor socket_;
  FrameReader reader_;
  std::unique_ptr<ReceiveRing> ring_;  // once welcomed
  Session session_;                    // once welcomed
  WayTime way_time_;
  std::vector<std::byte> out_;         // answers that wait for the socket
  bool paused_ = false;                // too many events wait for the loop
  uint32_t interest_ = 0;
  uint64_t bytes_at_progress_ = 0;
  TimePoint progress_at_;
};

}  // namespace tandem::kvlink
