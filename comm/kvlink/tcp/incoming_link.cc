#include "comm/kvlink/tcp/incoming_link.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "comm/runtime/check.h"

namespace tandem::kvlink {
namespace {

// Answers that a peer doesn't read; a Committed is some ten bytes.
constexpr size_t kMaxOutBytes = 256u << 10;

Error wrong(const char* what) { return {ErrorCode::kCorrupt, what, ""}; }

}  // namespace

IncomingLink::IncomingLink(FileDescriptor socket, LinkContext& context, IncomingLinkOwner& owner)
    : context_(context), owner_(owner), socket_(std::move(socket)), interest_(EPOLLIN),
      progress_at_(context.reactor.now()) {
  tune(socket_, context_.options.progress_timeout);
  context_.reactor.add(socket_.get(), interest_, *this);
}

IncomingLink::~IncomingLink() {
  if (socket_.valid()) context_.reactor.remove(socket_.get());
}

void IncomingLink::close() {
  if (!socket_.valid()) return;
  context_.reactor.remove(socket_.get());
  socket_.reset();
  ring_.reset();
  owner_.on_closed(*this);
}

void IncomingLink::on_ready(uint32_t epoll_events) {
  if (!socket_.valid()) return;
  if ((epoll_events & EPOLLOUT) != 0 && !flush().ok()) return close();
  if (paused_ && (epoll_events & (EPOLLERR | EPOLLHUP)) != 0) return close();
  if (!paused_ && (epoll_events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) {
    const Status status = reader_.read_from(socket_.get(), *this);
    if (!status.ok()) return close();
    if (ring_ && reader_.num_bytes() != bytes_at_progress_) {
      bytes_at_progress_ = reader_.num_bytes();
      progress_at_ = context_.reactor.now();
    }
    paused_ = context_.delivery.backlogged();
  }
  update_interest();
}

void IncomingLink::resume() {
  if (!paused_ || !socket_.valid()) return;
  paused_ = false;
  progress_at_ = context_.reactor.now();
  update_interest();
}

void IncomingLink::update_interest() {
  // A paused link hears of errors and hang-ups only: they close it.
  uint32_t wanted = 0;
  if (!paused_) wanted |= EPOLLIN;
  if (!out_.empty()) wanted |= EPOLLOUT;
  if (wanted == interest_) return;
  interest_ = wanted;
  context_.reactor.modify(socket_.get(), wanted);
}

std::optional<TimePoint> IncomingLink::deadline() const {
  if (!ring_) return progress_at_ + context_.options.open_deadline;
  if (reader_.mid_frame() && !paused_) return progress_at_ + context_.options.progress_timeout;
  return std::nullopt;
}

void IncomingLink::on_deadline() {
  const auto due = deadline();
  if (due && *due <= context_.reactor.now()) close();
}

Result<Session> IncomingLink::admit(const wire::LinkHello& hello) const {
  if (hello.protocol_version() != wire::kProtocolVersion) {
    return Error{ErrorCode::kUnsupported,
                 "protocol version " + std::to_string(hello.protocol_version()) + ", here " +
                     std::to_string(wire::kProtocolVersion), ""};
  }
  const std::string& own = context_.options.instance;
  if (hello.to_instance() != own) {
    return Error{ErrorCode::kFenced, "this is another instance: " + own, ""};
  }
  return context_.registry.admit(hello);
}

Status IncomingLink::take_hello(std::string_view header) {
  wire::LinkHello hello;
  if (!hello.ParseFromArray(header.data(), static_cast<int>(header.size()))) {
    return wrong("no greeting");
  }
  const Result<Session> session = admit(hello);
  wire::LinkWelcome welcome;
  if (!session.ok()) welcome.set_refusal(session.error().message);
  append_frame(FrameKind::kWelcome, welcome, out_);
  if (Status status = flush(); !status.ok()) return status;
  if (!session.ok()) {
    ++context_.counters.refused_connections;
    return session.error();
  }
  session_ = *session;
  (void)way_time_.excess(hello.sent_ns(), context_.reactor.now());
  ring_ = std::make_unique<ReceiveRing>(context_.options.max_block_bytes);
  owner_.on_welcomed(*this);
  return {};
}

Result<std::span<std::byte>> IncomingLink::on_header(FrameKind kind, std::string_view header) {
  Status status;
  if (!ring_) {
    status = kind == FrameKind::kHello ? take_hello(header) : Status(wrong("no greeting"));
  } else if (kind == FrameKind::kPush) {
    return take_push(header);
  } else if (kind == FrameKind::kCommit) {
    status = take_commit(header);
  } else {
    status = wrong("unexpected frame");
  }
  if (!status.ok()) return status.error();
  return std::span<std::byte>{};
}

Result<std::span<std::byte>> IncomingLink::take_push(std::string_view header) {
  wire::Push push;
  if (!push.ParseFromArray(header.data(), static_cast<int>(header.size()))) {
    return wrong("unreadable part");
  }
  if (push.withdrawn()) {
    ring_->withdraw(push);
    return std::span<std::byte>{};
  }
  return ring_->place(push);
}

Status IncomingLink::take_commit(std::string_view header) {
  wire::Commit commit;
  if (!commit.ParseFromArray(header.data(), static_cast<int>(header.size()))) {
    return wrong("unreadable commit");
  }
  add_delay(commit, way_time_.excess(commit.sent_ns(), context_.reactor.now()));
  context_.delivery.post([&registry = context_.registry, session = session_, commit](
                             KvLinkEvents& events) {
    if (registry.is_current(session)) events.on_commit(session.source, commit);
  });
  return {};
}

Status IncomingLink::on_payload() {
  const auto part = ring_->complete_piece();
  if (part) land(part->header, part->bytes);
  return {};
}

void IncomingLink::land(const wire::Push& header, std::span<std::byte> bytes) {
  const TcpLinkTesting& testing = context_.options.testing;
  LinkCounters& counters = context_.counters;
  counters.received_bytes += bytes.size();
  if (++context_.num_parts_received == testing.flip_bit_in_part) {
    bytes[bytes.size() / 2] ^= std::byte{1};
  }
  const uint64_t checksum = wire::payload_checksum(bytes.data(), bytes.size());
  const Deposit deposit = context_.registry.deposit(
      session_, header, bytes, checksum == header.checksum(), testing.verify_blocks);
  if (deposit.outcome == DepositOutcome::kDiscarded) {
    ++counters.discarded_parts;
    return;
  }
  const bool verified = deposit.outcome == DepositOutcome::kVerified;
  ++(verified ? counters.verified_parts : counters.corrupt_parts);
  // A part copied unverified is reported as its sender described it.
  const uint64_t reported = verified ? header.checksum() : checksum;
  const auto status = verified ? PartStatus::kVerified : PartStatus::kCorrupt;
  context_.delivery.post([&registry = context_.registry, id = deposit.landing_id,
                          grant = GrantId(header.grant()), epoch = Epoch(header.epoch()),
                          index = header.block_index(), reported, num_bytes = bytes.size(),
                          status](KvLinkEvents& events) {
    if (registry.is_open(grant, id)) {
      events.on_part(grant, epoch, index, reported, num_bytes, status);
    }
  });
}

void IncomingLink::send_committed(GrantId grant, Epoch epoch) {
  if (!socket_.valid()) return;
  wire::Committed committed;
  committed.set_grant(grant.value);
  committed.set_epoch(epoch.value);
  append_frame(FrameKind::kCommitted, committed, out_);
  if (!flush().ok() || out_.size() > kMaxOutBytes) return close();
  update_interest();
}

Status IncomingLink::flush() {
  size_t sent = 0;
  while (sent < out_.size()) {
    const ssize_t count = ::send(socket_.get(), out_.data() + sent, out_.size() - sent,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (count < 0) return Error{ErrorCode::kIo, std::string("send: ") + std::strerror(errno), ""};
    sent += static_cast<size_t>(count);
  }
  out_.erase(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(sent));
  return {};
}

}  // namespace tandem::kvlink
