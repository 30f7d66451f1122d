#include "comm/kvlink/tcp/outgoing_link.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "comm/runtime/check.h"

namespace tandem::kvlink {
namespace {

// After so many frames one connection lets the others have their turn.
constexpr int kMaxFramesPerTurn = 16;
// A slowed link sends pieces of a fiftieth of a second, so that its rate looks even.
constexpr uint64_t kSlowPiecesPerSecond = 50;

}  // namespace

OutgoingLink::OutgoingLink(PeerAddress peer, Incarnation self, LinkContext& context,
                           OutgoingLinkOwner& owner)
    : peer_(std::move(peer)), self_(self), context_(context), owner_(owner) {
  out_.reserve(kMaxPieceBytes + 1024);
}

OutgoingLink::~OutgoingLink() {
  if (socket_.valid()) context_.reactor.remove(socket_.get());
}

void OutgoingLink::open() {
  progress_at_ = context_.reactor.now();
  const Result<HostPort> address = parse_endpoint(peer_.endpoint);
  if (!address.ok()) return lose(address.error().message);
  Result<FileDescriptor> socket = start_connect(*address);
  if (!socket.ok()) return lose(socket.error().message);
  socket_ = std::move(socket).value();
  tune(socket_, context_.options.progress_timeout);
  wants_write_ = true;
  context_.reactor.add(socket_.get(), EPOLLIN | EPOLLOUT, *this);
}

void OutgoingLink::lose(const std::string& why) {
  CHECK(state_ != State::kLost);
  state_ = State::kLost;
  if (socket_.valid()) {
    context_.reactor.remove(socket_.get());
    socket_.reset();
  }
  owner_.on_lost(*this, why);
}

Status OutgoingLink::greet() {
  if (Status status = connect_outcome(socket_); !status.ok()) return status;
  wire::LinkHello hello;
  hello.set_protocol_version(wire::kProtocolVersion);
  hello.set_from_instance(context_.options.instance);
  hello.set_from_rank(context_.options.rank);
  hello.set_from_incarnation(self_.value);
  hello.set_to_instance(peer_.instance);
  hello.set_to_incarnation(peer_.incarnation.value);
  hello.set_link_secret(peer_.secret);
  hello.set_sent_ns(context_.reactor.now().time_since_epoch().count());
  append_frame(FrameKind::kHello, hello, out_);
  state_ = State::kGreeting;
  return {};
}

void OutgoingLink::on_ready(uint32_t epoll_events) {
  if (state_ == State::kConnecting) {
    if ((epoll_events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) == 0) return;
    if (Status status = greet(); !status.ok()) return lose(status.error().message);
  }
  if ((epoll_events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) {
    const Status status = reader_.read_from(socket_.get(), *this);
    if (!status.ok()) return lose(status.error().message);
  }
  pump();
}

Result<std::span<std::byte>> OutgoingLink::on_header(FrameKind kind, std::string_view header) {
  const Error wrong{ErrorCode::kCorrupt, "the peer broke the link protocol", ""};
  const int size = static_cast<int>(header.size());
  if (kind == FrameKind::kWelcome && state_ == State::kGreeting) {
    wire::LinkWelcome welcome;
    if (!welcome.ParseFromArray(header.data(), size)) return wrong;
    if (!welcome.refusal().empty()) {
      return Error{ErrorCode::kFenced, "refused: " + welcome.refusal(), ""};
    }
    state_ = State::kOpen;
    return std::span<std::byte>{};
  }
  wire::Committed committed;
  if (kind != FrameKind::kCommitted || state_ != State::kOpen ||
      !committed.ParseFromArray(header.data(), size)) {
    return wrong;
  }
  context_.delivery.post([&outboxes = context_.outboxes, self = self_, committed](
                             KvLinkEvents& events) {
    if (!outboxes.is_self(self)) return;
    events.on_committed(GrantId(committed.grant()), Epoch(committed.epoch()));
  });
  return std::span<std::byte>{};
}

Status OutgoingLink::on_payload() { check_failed(__FILE__, __LINE__, "no payload was announced"); }

Result<bool> OutgoingLink::flush() {
  while (out_sent_ < out_.size()) {
    const ssize_t count = ::send(socket_.get(), out_.data() + out_sent_, out_.size() - out_sent_,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
      return Error{ErrorCode::kIo, std::string("send: ") + std::strerror(errno), ""};
    }
    out_sent_ += static_cast<size_t>(count);
    progress_at_ = context_.reactor.now();
  }
  out_.clear();
  out_sent_ = 0;
  return true;
}

void OutgoingLink::report_sent() {
  if (!finished_) return;
  const uint64_t id = *std::exchange(finished_, std::nullopt);
  context_.delivery.post([&ledger = context_.ledger, id](KvLinkEvents& events) {
    const auto pushed = ledger.take(id);
    if (pushed) events.on_part_sent(pushed->grant, pushed->epoch, pushed->block_index);
  });
}

size_t OutgoingLink::max_piece_bytes() const {
  const uint64_t rate = context_.options.testing.slow_link_bytes_per_s;
  if (rate == 0) return kMaxPieceBytes;
  return std::clamp<size_t>(rate / kSlowPiecesPerSecond, 1, kMaxPieceBytes);
}

bool OutgoingLink::build_frame() {
  const uint64_t rate = context_.options.testing.slow_link_bytes_per_s;
  const TimePoint now = context_.reactor.now();
  std::lock_guard lock(context_.outboxes.mutex);
  const auto entry = context_.outboxes.entries.find(peer_);
  if (context_.outboxes.self != self_ || entry == context_.outboxes.entries.end()) return false;
  Outbox& outbox = entry->second.outbox;
  paused_ = rate > 0 && !outbox.empty() && now < next_frame_at_;
  if (paused_) return false;
  const auto frame = outbox.next_frame(out_, max_piece_bytes(), now);
  if (!frame) return false;
  finished_ = frame->finished_push;
  context_.counters.sent_bytes += frame->payload_bytes;
  progress_at_ = now;
  if (rate > 0) {
    next_frame_at_ = now + Duration(1'000'000'000ull * frame->payload_bytes / rate);
  }
  return true;
}

void OutgoingLink::pump() {
  if (state_ != State::kGreeting && state_ != State::kOpen) return;
  for (int frames = 0; frames < kMaxFramesPerTurn; ++frames) {
    const Result<bool> flushed = flush();
    if (!flushed.ok()) return lose(flushed.error().message);
    if (!*flushed) return want_write(true);
    report_sent();
    if (state_ != State::kOpen || !build_frame()) return want_write(false);
  }
  want_write(true);
}

void OutgoingLink::want_write(bool wanted) {
  if (wanted == wants_write_) return;
  wants_write_ = wanted;
  context_.reactor.modify(socket_.get(), wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

std::optional<TimePoint> OutgoingLink::deadline() const {
  if (state_ == State::kConnecting || state_ == State::kGreeting) {
    return progress_at_ + context_.options.open_deadline;
  }
  if (state_ == State::kOpen && out_sent_ < out_.size()) {
    return progress_at_ + context_.options.progress_timeout;
  }
  if (paused_) return next_frame_at_;
  return std::nullopt;
}

void OutgoingLink::on_deadline() {
  const auto due = deadline();
  if (!due || *due > context_.reactor.now()) return;
  if (state_ != State::kOpen) return lose("not open in time");
  if (out_sent_ < out_.size()) return lose("no progress");
  pump();
}

}  // namespace tandem::kvlink
