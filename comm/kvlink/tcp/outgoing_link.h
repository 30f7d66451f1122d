#pragma once
// OutgoingLink: the connecting end of a pair.
//
//   connecting --> greeting (LinkHello sent) --> open: frames from the outbox; Committed comes back
//        \______________\__________________________\__> lost, once: refused, broken, or too slow
//
// Owned by LinkHub; link thread only; never reconnects by itself.

#include <optional>
#include <string>
#include <vector>

#include "comm/kvlink/tcp/frame_reader.h"
#include "comm/kvlink/tcp/link_context.h"

namespace tandem::kvlink {

class OutgoingLink;

class OutgoingLinkOwner {
 public:
  virtual ~OutgoingLinkOwner() = default;
  // The link has closed its socket and does nothing any more; not to be destroyed in the call.
  virtual void on_lost(OutgoingLink& link, const std::string& why) = 0;
};

class OutgoingLink final : public Pollable, private FrameSink {
 public:
  // self: the incarnation this end is; its outboxes are the only ones it sends from.
  OutgoingLink(PeerAddress peer, Incarnation self, LinkContext& context,
               OutgoingLinkOwner& owner);
  ~OutgoingLink() override;

  const PeerAddress& peer() const { return peer_; }
  Incarnation self() const { return self_; }
  // Starts connecting. May report the loss at once.
  void open();
  // The outbox has work.
  void pump();

  void on_ready(uint32_t epoll_events) override;
  std::optional<TimePoint> deadline() const override;
  void on_deadline() override;

 private:
  enum class State { kConnecting, kGreeting, kOpen, kLost };

  Result<std::span<std::byte>> on_header(FrameKind kind, std::string_view header) override;
  Status on_payload() override;

  Status greet();
  // Sends what is in out_. True when all of it left.
  Result<bool> flush();
  void report_sent();
  // Fills out_ with the next frame; false when there is none, or none may leave yet.
  bool build_frame();
  size_t max_piece_bytes() const;
  void want_write(bool wanted);
  void lose(const std::string& why);

  const PeerAddress peer_;
  const Incarnation self_;
  LinkContext& context_;
  OutgoingLinkOwner& owner_;
  FileDescriptor socket_;
  State state_ = State::kConnecting;
  FrameReader reader_;
  std::vector<std::byte> out_;        // the frame under way
  size_t out_sent_ = 0;
  std::optional<uint64_t> finished_;  // the push whose last piece is in out_
  TimePoint progress_at_{};           // start of this state, or when bytes last moved
  TimePoint next_frame_at_{};         // a slowed link sends nothing earlier
  bool paused_ = false;               // the outbox has work, but next_frame_at_ isn't reached
  bool wants_write_ = false;
};

}  // namespace tandem::kvlink
