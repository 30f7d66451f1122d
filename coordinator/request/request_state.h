#pragma once
// One request on its way through the cluster: its journal, its legs and its phase. Plain data,
// owned and changed by the Coordinator alone (loop thread).
//
//   kQueued -> kReserving -> kPrefilling -> kDecoding -> (ended)
//      ^           |             |  ^           |
//      |           |             v  |           |
//      |           |        kRegranting         |     prefill side lost before the commit
//      +-----------+-------------+--------------+     decode side lost: a new attempt

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/runtime/clock.h"
#include "comm/runtime/ids.h"
#include "comm/wire/control.pb.h"
#include "coordinator/request/service.h"

namespace tandem::request {

enum class Phase { kQueued, kReserving, kPrefilling, kRegranting, kDecoding };
const char* phase_name(Phase phase);

// A (request, attempt) at one instance.
struct Leg {
  std::string instance;
  Incarnation incarnation;
  Attempt attempt;            // under which the instance knows it
  bool open = false;          // the instance was told about it and not yet told to let go
  uint32_t num_new_ids = 0;   // ids that entered the journal from it
};

struct RequestState {
  RequestId id;
  Request request;
  Observer* observer = nullptr;

  // The journal: output tokens in order. Once here, a token is input to every later attempt.
  std::vector<uint32_t> ids;
  std::vector<uint64_t> logits_digests;  // parallel to ids; zeros unless testing.logits_digest

  Phase phase = Phase::kQueued;
  Attempt attempt;
  Epoch epoch;                      // of the current grant
  uint32_t num_failures = 0;        // decode sides lost
  uint32_t num_epochs = 1;
  Leg prefill;                      // open until Release: while it is, it is a source lease
  Leg decode;
  bool holds_prefill_slot = false;  // from Reserve to the prefill side's first token
  bool has_source = false;          // prefill pushed for an earlier attempt: Retarget, not Prefill
  Attempt source_attempt;           // under which that source is known until the Retarget arrives
  uint32_t base = 0;                // output tokens that are input of the prefill leg
  uint32_t reserved_base = 0;       // output tokens that were input of the Reserve

  GrantId grant;
  uint32_t grant_cached_tokens = 0;
  uint64_t link_secret = 0;

  TimePoint submitted{};            // real time, for TTFT
  TimePoint last_delivery{};        // real time
  TimePoint stage_began{};          // real time; of the hand-over stage for the metrics
  TimePoint deadline{};             // deadline time, like the two below
  TimePoint resend_at{};
  TimePoint not_before{};           // queued: don't dispatch earlier

  std::optional<wire::Finished> finished;  // waits for the journal to be complete
  wire::LegCounters counters;              // of the leg that reported last
  Trace trace;
};

// Tokens of a request that outlive it: legs that still have to report what they generated.
struct Account {
  uint32_t generated = 0;   // known so far
  uint32_t delivered = 0;
  uint32_t open_legs = 0;
  bool ended = false;
  enum class Reason { kReplay, kStop, kCancel, kFenced } reason = Reason::kReplay;
};

// tokens = prompt + output[0, num_emitted); the rest as the legs need it.
wire::Work make_work(const RequestState& state, uint32_t num_emitted, Duration time_left,
                     bool solo);

// Order-dependent combination of the first num_tokens logits digests; 0 when all are (testing off).
uint64_t chain_digests(const std::vector<uint64_t>& digests, uint32_t num_tokens);

}  // namespace tandem::request
