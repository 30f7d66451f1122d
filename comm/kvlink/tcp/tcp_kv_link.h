#pragma once
// TcpKvLink: KV blocks over TCP.
//
//   loop thread                    link thread (one, owned)               loop thread of the peer
//   push() --> Outbox --(frames)--> socket ... socket --> ring slot --> verify, copy --> on_part
//
// The link thread owns every socket, checksum and copy and sleeps in epoll when there is nothing
// to do. A payload lands in memory that belongs to the connection (allocated when its greeting was
// accepted, destroyed with it), is verified there, and is copied into its block under the lock that
// close_landing() takes. Frames of several grants are interleaved, so no grant waits for another
// one's long parts; the connection's flow control is the only credit.
// All KvLink methods: loop thread only. They never wait for the network; push(), drop() and
// close_landing() may wait for one checksum or copy of a block.
// What it never does: resend, map pool memory for a peer, or decide anything about a grant.

#include <memory>

#include "comm/kvlink/kv_link.h"
#include "comm/kvlink/tcp/tcp_link_options.h"
#include "comm/runtime/event_loop.h"

namespace tandem::kvlink {

class TcpKvLink final : public KvLink {
 public:
  // Binds and starts the link thread. `loop` must outlive this object.
  // Throws StartupError when the address can't be bound.
  // Requires: options.max_block_bytes in [1, wire::kMaxBlockBytes], incarnation != 0.
  TcpKvLink(EventLoop& loop, TcpLinkOptions options);
  // Closes every connection and joins the thread; no event comes afterwards. Loop thread, or any
  // thread once the loop has ended.
  ~TcpKvLink() override;

  // Who gets the events; until then they are thrown away. Call it before the first push or
  // expect_peer. `events` must outlive this object.
  void deliver_to(KvLinkEvents& events);

  std::string endpoint() const override;
  void reincarnate(Incarnation self) override;
  void push(const PeerAddress& peer, const Part& part) override;
  void commit(const PeerAddress& peer, const wire::Commit& commit) override;
  void drop(GrantId grant, Epoch epoch) override;
  void expect_peer(Incarnation source, uint64_t secret) override;
  void forget_peer(Incarnation source) override;
  void open_landing(Landing landing) override;
  void close_landing(GrantId grant) override;
  void committed(Incarnation to, GrantId grant, Epoch epoch) override;

  // Thread-safe.
  TcpLinkCounters counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::kvlink
