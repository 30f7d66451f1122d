#pragma once
// What the parts of one TcpKvLink share, and who may touch it. Owned by TcpKvLink.

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/kvlink/kv_link.h"
#include "comm/kvlink/tcp/event_delivery.h"
#include "comm/kvlink/tcp/landing_registry.h"
#include "comm/kvlink/tcp/outbox.h"
#include "comm/kvlink/tcp/reactor.h"
#include "comm/kvlink/tcp/tcp_link_options.h"

namespace tandem::kvlink {

// The outboxes of all peers: filled by the loop thread, emptied by the link thread.
struct OutboxTable {
  struct Entry {
    Outbox outbox;
    bool scheduled = false;  // the link thread has been told that there is work
    bool lost = false;       // on_link_lost is on its way; what is queued goes with it
  };
  explicit OutboxTable(Incarnation own) : self(own) {}

  bool is_self(Incarnation incarnation) {
    std::lock_guard lock(mutex);
    return self == incarnation;
  }

  std::mutex mutex;
  Incarnation self;                      // guarded by mutex; who pushes
  std::map<PeerAddress, Entry> entries;  // guarded by mutex
};

// The parts whose on_part_sent is owed. Loop thread only.
class PushLedger {
 public:
  struct Pushed {
    PeerAddress peer;
    GrantId grant;
    Epoch epoch;
    uint32_t block_index = 0;
  };

  uint64_t add(const PeerAddress& peer, const Part& part) {
    pushed_.emplace(next_id_, Pushed{peer, part.grant, part.epoch, part.block_index});
    return next_id_++;
  }
  // The part, once; nothing if it was dropped or lost meanwhile.
  std::optional<Pushed> take(uint64_t id) {
    auto node = pushed_.extract(id);
    if (node.empty()) return std::nullopt;
    return std::move(node.mapped());
  }
  void drop(GrantId grant, Epoch epoch) {
    std::erase_if(pushed_, [&](const auto& item) {
      return item.second.grant == grant && item.second.epoch == epoch;
    });
  }
  void clear() { pushed_.clear(); }
  void lose(const PeerAddress& peer) {
    std::erase_if(pushed_, [&](const auto& item) { return item.second.peer == peer; });
  }

 private:
  std::map<uint64_t, Pushed> pushed_;
  uint64_t next_id_ = 1;
};

// Added to by the link thread, read by any.
struct LinkCounters {
  std::atomic<uint64_t> sent_bytes{0};
  std::atomic<uint64_t> received_bytes{0};
  std::atomic<uint64_t> verified_parts{0};
  std::atomic<uint64_t> corrupt_parts{0};
  std::atomic<uint64_t> discarded_parts{0};
  std::atomic<uint64_t> refused_connections{0};
};

struct LinkContext {
  const TcpLinkOptions options;
  Reactor reactor;
  LandingRegistry registry;
  OutboxTable outboxes;
  PushLedger ledger;              // loop thread only
  LinkCounters counters;
  uint64_t num_parts_received = 0;  // link thread only
  EventDelivery delivery;

  LinkContext(EventLoop& loop, TcpLinkOptions o, std::function<void()> on_drained)
      : options(std::move(o)), registry(options.incarnation), outboxes(options.incarnation),
        delivery(loop, std::move(on_drained)) {}
};

}  // namespace tandem::kvlink
