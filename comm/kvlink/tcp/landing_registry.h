#pragma once
// LandingRegistry: which peers may push, and where the parts of each grant may land. The one place
// where received bytes reach pool memory, under one lock: when close(), forget() or reincarnate()
// has returned, no copy is under way and none will start.
// Written by the loop thread, asked by the link thread; thread-safe.

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "comm/kvlink/kv_link.h"

namespace tandem::kvlink {

enum class DepositOutcome {
  kVerified,
  kCorrupt,    // chain hash, size or checksum differ; nothing was written
  kDiscarded,  // no open landing wants it; nothing was written and nobody is told
};

struct Deposit {
  DepositOutcome outcome = DepositOutcome::kDiscarded;
  uint64_t landing_id = 0;  // for is_open()
};

// One registration of a peer's secret. A connection belongs to the session it was admitted to and
// is worth nothing once that has ended, even if the same peer is expected again.
struct Session {
  Incarnation source;
  uint64_t id = 0;
};

class LandingRegistry {
 public:
  explicit LandingRegistry(Incarnation self) : self_(self) {}

  // Begins a session, unless the one with this secret is still there.
  void expect(Incarnation source, uint64_t secret);
  // Ends the session.
  void forget(Incarnation source);
  // Ends every session, closes every landing, and goes on as `self`.
  void reincarnate(Incarnation self);
  // The session a greeting belongs to; kFenced with the reason for the peer if there is none.
  Result<Session> admit(const wire::LinkHello& hello) const;
  bool is_current(const Session& session) const;

  void open(Landing landing);
  void close(GrantId grant);
  bool is_open(GrantId grant, uint64_t landing_id) const;

  // Copies the payload into its block if an open landing of this session and epoch wants it and
  // everything agrees. checksum_ok: what the caller found. must_agree false (tests): copies
  // although the checksum or chain hash differs.
  Deposit deposit(const Session& session, const wire::Push& push,
                  std::span<const std::byte> payload, bool checksum_ok, bool must_agree);

 private:
  struct Open {
    Landing landing;
    uint64_t id = 0;
    std::vector<bool> written;  // by block index
  };

  struct Expected {
    uint64_t secret = 0;
    uint64_t session_id = 0;
  };
  // Requires: mutex_ is held.
  bool is_current_locked(const Session& session) const;

  mutable std::mutex mutex_;
  Incarnation self_;                          // guarded by mutex_
  std::map<Incarnation, Expected> expected_;  // guarded by mutex_
  std::map<GrantId, Open> landings_;          // guarded by mutex_
  uint64_t next_id_ = 1;                      // guarded by mutex_
};

}  // namespace tandem::kvlink
