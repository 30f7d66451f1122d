#pragma once
// LandingRegistry: which peers may push, and where the parts of each grant may land. The one place
// where received bytes reach pool memory, under one lock: when close() or forget() has returned,
// no copy is under way and none will start.
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

class LandingRegistry {
 public:
  void expect(Incarnation source, uint64_t secret);
  void forget(Incarnation source);
  bool expects(Incarnation source) const;
  // Whether the secret is the one registered for this incarnation.
  bool admits(Incarnation source, uint64_t secret) const;

  void open(Landing landing);
  void close(GrantId grant);
  bool is_open(GrantId grant, uint64_t landing_id) const;

  // Copies the payload into its block if an open landing of this source and epoch wants it and
  // everything agrees. checksum_ok: what the caller found. must_agree false (tests): copies
  // although the checksum or chain hash differs.
  Deposit deposit(Incarnation source, const wire::Push& push, std::span<const std::byte> payload,
                  bool checksum_ok, bool must_agree);

 private:
  struct Open {
    Landing landing;
    uint64_t id = 0;
    std::vector<bool> written;  // by block index
  };

  mutable std::mutex mutex_;
  std::map<Incarnation, uint64_t> secrets_;  // guarded by mutex_
  std::map<GrantId, Open> landings_;         // guarded by mutex_
  uint64_t next_id_ = 1;                     // guarded by mutex_
};

}  // namespace tandem::kvlink
