#include "comm/kvlink/tcp/tcp_kv_link.h"

#include <thread>
#include <utility>

#include "comm/kvlink/tcp/link_hub.h"
#include "comm/runtime/check.h"
#include "comm/wire/limits.h"

namespace tandem::kvlink {
namespace {

FileDescriptor listen_or_throw(const TcpLinkOptions& options) {
  Result<FileDescriptor> listener = listen_on({options.host, options.port});
  if (!listener.ok()) {
    throw StartupError("kv link: " + listener.error().message +
                       "; choose a free address, or port 0");
  }
  return std::move(listener).value();
}

}  // namespace

struct TcpKvLink::Impl {
  Impl(EventLoop& loop, TcpLinkOptions options, FileDescriptor listener)
      : context(loop, std::move(options),
                [this] { context.reactor.post([this] { hub.resume_incoming(); }); }),
        hub(context, std::move(listener)) {}

  // Adds to the peer's outbox and tells the link thread, if that is news to it.
  template <typename Add>
  void queue(const PeerAddress& peer, Add add) {
    bool tell = false;
    {
      std::lock_guard lock(context.outboxes.mutex);
      OutboxTable::Entry& entry = context.outboxes.entries[peer];
      add(entry.outbox);
      tell = !entry.lost && !std::exchange(entry.scheduled, true);
    }
    if (tell) context.reactor.post([this, peer] { hub.service(peer); });
  }

  LinkContext context;
  LinkHub hub;
  std::string endpoint;
  std::thread thread;
};

TcpKvLink::TcpKvLink(EventLoop& loop, TcpLinkOptions options) {
  CHECK(options.max_block_bytes > 0 && options.max_block_bytes <= wire::kMaxBlockBytes);
  CHECK(options.incarnation != Incarnation());
  FileDescriptor listener = listen_or_throw(options);
  const Result<uint16_t> port = bound_port(listener);
  if (!port.ok()) throw StartupError("kv link: " + port.error().message);
  const std::string endpoint = format_endpoint({options.host, *port});
  impl_ = std::make_unique<Impl>(loop, std::move(options), std::move(listener));
  impl_->endpoint = endpoint;
  impl_->thread = std::thread([impl = impl_.get()] { impl->context.reactor.run(); });
}

TcpKvLink::~TcpKvLink() {
  impl_->context.reactor.stop();
  impl_->thread.join();
}

void TcpKvLink::deliver_to(KvLinkEvents& events) { impl_->context.delivery.deliver_to(events); }

std::string TcpKvLink::endpoint() const { return impl_->endpoint; }

void TcpKvLink::reincarnate(Incarnation self) {
  CHECK(self != Incarnation());
  impl_->context.registry.reincarnate(self);
  impl_->context.ledger.clear();
  {
    std::lock_guard lock(impl_->context.outboxes.mutex);
    impl_->context.outboxes.self = self;
    impl_->context.outboxes.entries.clear();
  }
  // Before any service() that a later push asks for.
  impl_->context.reactor.post([impl = impl_.get()] { impl->hub.close_stale(); });
}

void TcpKvLink::push(const PeerAddress& peer, const Part& part) {
  CHECK(!part.bytes.empty() && part.bytes.size() <= wire::kMaxBlockBytes);
  const uint64_t id = impl_->context.ledger.add(peer, part);
  impl_->queue(peer, [&](Outbox& outbox) { outbox.push(part, id); });
}

void TcpKvLink::commit(const PeerAddress& peer, const wire::Commit& commit) {
  const TimePoint now = impl_->context.reactor.now();
  impl_->queue(peer, [&](Outbox& outbox) { outbox.commit(commit, now); });
}

void TcpKvLink::drop(GrantId grant, Epoch epoch) {
  impl_->context.ledger.drop(grant, epoch);
  // The link thread reads bytes under this lock only.
  std::lock_guard lock(impl_->context.outboxes.mutex);
  for (auto& [peer, entry] : impl_->context.outboxes.entries) entry.outbox.drop(grant, epoch);
}

void TcpKvLink::expect_peer(Incarnation source, uint64_t secret) {
  CHECK(source != Incarnation());
  impl_->context.registry.expect(source, secret);
}

void TcpKvLink::forget_peer(Incarnation source) {
  impl_->context.registry.forget(source);
  impl_->context.reactor.post([impl = impl_.get()] { impl->hub.close_stale(); });
}

void TcpKvLink::open_landing(Landing landing) {
  impl_->context.registry.open(std::move(landing));
}

void TcpKvLink::close_landing(GrantId grant) { impl_->context.registry.close(grant); }

void TcpKvLink::committed(Incarnation to, GrantId grant, Epoch epoch) {
  impl_->context.reactor.post(
      [impl = impl_.get(), to, grant, epoch] { impl->hub.send_committed(to, grant, epoch); });
}

TcpLinkCounters TcpKvLink::counters() const {
  const LinkCounters& now = impl_->context.counters;
  return {now.sent_bytes,    now.received_bytes,  now.verified_parts,
          now.corrupt_parts, now.discarded_parts, now.refused_connections};
}

}  // namespace tandem::kvlink
