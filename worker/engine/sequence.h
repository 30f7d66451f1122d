#pragma once
// Sequence: one leg of a request on this instance. Plain data, owned by the Engine (loop thread).
//
//   decode leg   kAwaitRoom -> kGranted -> kPrefill (what is missing) -> kDecode -> kDone
//   prefill leg  kAwaitRoom -> kPrefill -> kSource (blocks kept for the decode side) | kDone
//
// Every state ends by Release, Cancel or the end of its lease.

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "comm/kvlink/kv_link.h"
#include "comm/runtime/clock.h"
#include "comm/runtime/ids.h"
#include "comm/wire/control.pb.h"
#include "comm/wire/token_hash.h"
#include "worker/kv/block_lease.h"
#include "worker/scheduler/view.h"

namespace tandem::engine {

enum class LegKind { kPrefillLeg, kDecodeLeg };
enum class Phase { kAwaitRoom, kGranted, kPrefill, kDecode, kSource, kDone };
const char* phase_name(Phase phase);

struct SequenceId {
  RequestId request;
  Attempt attempt;
  auto operator<=>(const SequenceId&) const = default;
};

struct Sequence {
  uint64_t key = 0;                  // arrival order on this instance
  SequenceId id;
  LegKind kind = LegKind::kDecodeLeg;
  Phase phase = Phase::kAwaitRoom;
  TimePoint lease_until{};           // deadline time

  // Tokens: prompt, then output. Outputs before `base` were given as input.
  std::vector<uint32_t> tokens;
  uint32_t prompt_length = 0;
  uint32_t base = 0;                 // output index of the first token that this leg reports
  uint32_t num_inputs = 0;           // tokens that are input: prompt_length + base
  uint32_t max_tokens = 0;           // output tokens in all
  wire::Sampling sampling;
  std::vector<uint32_t> stop_ids;
  bool ignore_eos = false;
  bool solo = false;

  // KV.
  kv::BlockLease blocks;
  std::vector<wire::Hash128> hashes; // per whole or last block of tokens hashed so far
  uint32_t num_published = 0;        // leading blocks offered to the prefix index
  uint32_t cached_tokens = 0;        // leading tokens that came from the prefix cache
  std::vector<scheduler::Range> todo;// positions to compute before sampling or decoding

  // Hand-over.
  GrantId grant;                     // own (decode leg) or the target's (prefill leg)
  Epoch epoch;
  // decode leg
  std::vector<bool> verified;        // the parts ledger: per block, cached or received and checked
  uint32_t reserved_tokens = 0;      // tokens of the Reserve, before a Regrant added some
  uint32_t corrupt_blocks = 0;
  Incarnation source;                // who may push; 0 = nobody
  bool landing_open = false;
  bool committed = false;            // a commit was admitted, or it computed for itself
  bool awaits_tail = false;          // committed, but blocks are missing: no sampling at their end
  TimePoint last_part{};             // real time of the last verified part
  // prefill leg
  kvlink::PeerAddress target;
  uint32_t first_push = 0;           // the decode side has the blocks before it
  uint32_t next_push = 0;            // block index
  bool commit_known = false;         // Committed arrived
  bool link_down = false;            // nothing is pushed until the retry
  TimePoint link_lost_since{};       // deadline time of the first loss; 0 = the link is fine
  TimePoint link_retry_at{};
  TimePoint first_part_at{};         // real time
  TimePoint last_chunk_at{};         // real time
  uint32_t num_chunks = 0;

  // Outbox: a cursor over the output tokens. base <= acked <= sent <= outputs().
  std::vector<uint64_t> digests;     // per output token from base on
  std::vector<wire::TokenLogprobs> logprobs;
  uint32_t acked = 0;
  uint32_t sent = 0;
  TimePoint sent_at{};
  std::optional<wire::Finished> finished;
  TimePoint finished_sent_at{};
  wire::LegCounters counters;

  bool started = false;              // was in a plan
  uint32_t plans_waited = 0;
  bool in_plan = false;              // its blocks are being written
  bool doomed = false;               // let go as soon as the plan is done
  bool answer_released = false;      // and say Released then

  uint32_t outputs() const { return static_cast<uint32_t>(tokens.size()) - prompt_length; }
  bool is_decode_leg() const { return kind == LegKind::kDecodeLeg; }
};

// The positions that a prefill has to compute: blocks not in `have`, clipped to num_tokens, and
// with `sample` at least the last position.
std::vector<scheduler::Range> missing_ranges(const std::vector<bool>& have, uint32_t block_size,
                                             uint32_t num_tokens, bool sample);

// Tokens of the prompt proper that the prefix cache had, for the usage: at least one is computed,
// and outputs of earlier attempts don't count.
uint32_t cached_prompt_tokens(const Sequence& sequence);

// Digest of the ledger that a hand-over should end with: the identities of blocks [first, end).
uint64_t ledger_digest(const std::vector<wire::Hash128>& hashes, uint32_t first, uint32_t end);

}  // namespace tandem::engine
