// The decode side of a hand-over: reserve, grant, parts, commit; and prefill into the own grant.
#include <algorithm>
#include <set>
#include <utility>

#include "comm/runtime/planted.h"
#include "worker/engine/engine.h"

namespace tandem::engine {
namespace {

constexpr size_t kMaxPeers = 64;  // prefill incarnations that may push here

}  // namespace

void Engine::on_reserve(const wire::Reserve& reserve) {
  const SequenceId id{RequestId{reserve.request()}, Attempt{reserve.attempt()}};
  if (const Sequence* known = find(id); known != nullptr) {
    if (known->phase == Phase::kAwaitRoom) {
      send_refused(id, wire::Refused::NO_ROOM, "waiting for room");
    } else {
      send_granted(*known);
    }
    return;
  }
  const wire::Work& work = reserve.work();
  const uint32_t need = blocks_for(uint64_t{work.prompt_length()} + work.max_tokens());
  if (need > pool_.counts().total) {
    send_refused(id, wire::Refused::NEVER,
                 "needs " + std::to_string(need) + " KV blocks, the pool of " +
                     options_.instance + " has " + std::to_string(pool_.counts().total));
    return;
  }
  if (draining_) {
    send_refused(id, wire::Refused::DRAINING, options_.instance + " is draining");
    return;
  }
  uint32_t awaiting = 0;
  for (const auto& [key, other] : sequences_) {
    if (other->phase == Phase::kAwaitRoom) ++awaiting;
  }
  if (awaiting >= options_.max_awaiting) {
    send_refused(id, wire::Refused::QUEUE_FULL, options_.instance + " keeps " +
                                                    std::to_string(awaiting) + " reserves");
    return;
  }
  Sequence& sequence = add(id, LegKind::kDecodeLeg, work);
  sequence.reserved_tokens = sequence.num_inputs;
  sequence.source = Incarnation{reserve.prefill_incarnation()};
  const uint64_t key = sequence.key;
  admit_waiting();
  if (sequences_.at(key)->phase == Phase::kAwaitRoom) {
    send_refused(id, wire::Refused::NO_ROOM, "waiting for room");
  }
}

void Engine::send_granted(const Sequence& sequence) {
  wire::Envelope envelope;
  wire::Granted& granted = *envelope.mutable_granted();
  granted.set_request(sequence.id.request.value);
  granted.set_attempt(sequence.id.attempt.value);
  granted.set_grant(sequence.grant.value);
  granted.set_cached_tokens(sequence.cached_tokens);
  granted.set_num_blocks(sequence.blocks.num_blocks());
  granted.set_expiry_ms(static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(sequence.lease_until - now())
          .count()));
  granted.set_link_secret(link_secret(sequence.source));
  send(std::move(envelope));
}

void Engine::send_refused(const SequenceId& id, wire::Refused::Reason reason,
                          std::string message) {
  wire::Envelope envelope;
  wire::Refused& refused = *envelope.mutable_refused();
  refused.set_request(id.request.value);
  refused.set_attempt(id.attempt.value);
  refused.set_reason(reason);
  refused.set_message(std::move(message));
  send(std::move(envelope));
}

// Strictly in order of arrival, grants and prefills alike: nobody overtakes who waits for room.
// A prefill leg may pass waiting grants: its own grant, elsewhere, is already taken, and what it
// holds is given back without waiting for anybody here.
void Engine::admit_waiting() {
  bool grants_blocked = false;
  bool prefills_blocked = false;
  for (auto& [key, sequence] : sequences_) {
    if (sequence->phase != Phase::kAwaitRoom || sequence->doomed) continue;
    bool& blocked = sequence->is_decode_leg() ? grants_blocked : prefills_blocked;
    if (blocked) continue;
    if (!admit(*sequence)) blocked = true;
  }
}

bool Engine::room_for_grant(uint32_t num_blocks) const {
  uint32_t granted = 0;
  for (const auto& [key, sequence] : sequences_) {
    if (!sequence->is_decode_leg()) continue;
    if (sequence->phase == Phase::kGranted || sequence->phase == Phase::kPrefill) {
      granted += sequence->blocks.num_blocks();
    }
  }
  return granted == 0 || granted + num_blocks <= pool_.counts().total / 2;
}

// Takes the blocks of a waiting leg. A decode leg takes its whole need, a prefill leg the prompt's.
bool Engine::admit(Sequence& sequence) {
  const uint32_t need =
      sequence.is_decode_leg()
          ? blocks_for(uint64_t{sequence.prompt_length} + sequence.max_tokens)
          : blocks_for(sequence.num_inputs);
  if (sequence.is_decode_leg() && !room_for_grant(need)) return false;
  hash_blocks(sequence);
  std::vector<BlockId> shared;
  if (options_.prefix_cache) {
    shared = pool_.match({chain_seed_, sequence.hashes, sequence.tokens, block_size(),
                          kv::max_cached_blocks(sequence.num_inputs, block_size())});
  }
  auto lease = pool_.lease({sequence.key, incarnation_, sequence.lease_until}, shared,
                           need - static_cast<uint32_t>(shared.size()));
  if (!lease) return false;
  sequence.blocks = std::move(*lease);
  const uint32_t num_shared = static_cast<uint32_t>(shared.size());
  sequence.cached_tokens = num_shared * block_size();
  sequence.num_published = num_shared;
  sequence.verified.assign(blocks_for(sequence.num_inputs), false);
  std::fill_n(sequence.verified.begin(), num_shared, true);
  seams_.metrics.prefix_cache_queries.add(sequence.num_inputs);
  seams_.metrics.prefix_cache_hits.add(sequence.cached_tokens);
  if (sequence.is_decode_leg()) {
    sequence.phase = Phase::kGranted;
    sequence.grant = GrantId{seams_.rng.next() | 1};
    by_grant_[sequence.grant] = sequence.key;
    open_landing(sequence);
    send_granted(sequence);
  } else {
    sequence.phase = Phase::kPrefill;
    sequence.todo = missing_ranges(sequence.verified, block_size(), sequence.num_inputs, true);
    sequence.counters.set_cached_tokens(cached_prompt_tokens(sequence));
    push_ready(sequence);
  }
  return true;
}

uint64_t Engine::link_secret(Incarnation source) {
  const auto [found, fresh] = link_secrets_.try_emplace(source, 0);
  if (fresh) {
    found->second = seams_.rng.next() | 1;
    seams_.link.expect_peer(source, found->second);
    forget_old_peers(source);
  }
  return found->second;
}

// Prefill incarnations come and go: those that nothing here waits for are forgotten, connections
// and memory included, once there are too many.
void Engine::forget_old_peers(Incarnation fresh) {
  if (link_secrets_.size() <= kMaxPeers) return;
  std::set<Incarnation> needed = {fresh};
  for (const auto& [key, sequence] : sequences_) needed.insert(sequence->source);
  for (auto it = link_secrets_.begin(); it != link_secrets_.end();) {
    if (needed.contains(it->first)) {
      ++it;
      continue;
    }
    seams_.link.forget_peer(it->first);
    it = link_secrets_.erase(it);
  }
}

void Engine::open_landing(Sequence& sequence) {
  if (sequence.source == incarnation_ || sequence.source == Incarnation{}) return;
  link_secret(sequence.source);
  kvlink::Landing landing;
  landing.grant = sequence.grant;
  landing.epoch = sequence.epoch;
  landing.source = sequence.source;
  landing.first_block = leading_blocks(sequence);
  landing.chain_hashes = sequence.hashes;
  const auto table = sequence.blocks.blocks();
  for (size_t i = 0; i < sequence.hashes.size(); ++i) {
    landing.blocks.push_back(seams_.executor.block_bytes(table[i]));
  }
  seams_.link.open_landing(std::move(landing));
  sequence.landing_open = true;
}

void Engine::close_landing(Sequence& sequence) {
  if (!sequence.landing_open) return;
  if (!planted(Bug::kLandingStaysOpen)) seams_.link.close_landing(sequence.grant);
  sequence.landing_open = false;
}

uint32_t Engine::leading_blocks(const Sequence& sequence) const {
  const auto first = std::find(sequence.verified.begin(), sequence.verified.end(), false);
  return static_cast<uint32_t>(first - sequence.verified.begin());
}

void Engine::on_part(GrantId grant, Epoch epoch, uint32_t block_index, uint64_t /*checksum*/,
                     uint64_t num_bytes, kvlink::PartStatus status) {
  Sequence* sequence = find_grant(grant);
  if (sequence == nullptr || sequence->phase != Phase::kGranted) return;
  if (sequence->epoch != epoch && !planted(Bug::kAcceptOldEpoch)) return;
  if (block_index >= sequence->verified.size()) return;
  sequence->counters.set_bytes_received(sequence->counters.bytes_received() + num_bytes);
  seams_.metrics.kv_transfer_bytes[telemetry::TransferDirection::kReceived].add(
      static_cast<double>(num_bytes));
  sequence->lease_until = std::max(sequence->lease_until, now() + options_.deadlines.grant_ttl);
  if (status == kvlink::PartStatus::kCorrupt) {
    ++sequence->corrupt_blocks;
    seams_.metrics.kv_blocks_recomputed[telemetry::RecomputeReason::kChecksum].add();
    seams_.log.warning("corrupt_block", {{"request", sequence->id.request},
                                         {"block", block_index}});
    return;  // stays missing: computed here once the commit is in
  }
  sequence->verified[block_index] = true;
  sequence->last_part = seams_.loop.now();
}

// Idempotent by (grant, epoch): a repeated commit is answered again and changes nothing.
void Engine::on_commit(Incarnation from, const wire::Commit& commit) {
  const GrantId grant{commit.grant()};
  const Epoch epoch{commit.epoch()};
  Sequence* sequence = find_grant(grant);
  if (sequence == nullptr) return;
  const bool current = sequence->epoch == epoch && sequence->source == from;
  if (!current && !planted(Bug::kAcceptOldEpoch)) return;
  wire::TokenLogprobs logprobs;
  (void)logprobs.ParseFromString(commit.first_logprobs());
  if (current && sequence->committed) {
    if (planted(Bug::kDoubleAdmit)) take_token(*sequence, commit.first_token(), 0, logprobs);
    seams_.link.committed(from, grant, epoch);
    return;
  }
  if (sequence->phase == Phase::kAwaitRoom || sequence->phase == Phase::kDone) return;
  close_landing(*sequence);
  sequence->committed = true;
  const uint32_t num_inputs = sequence->num_inputs;
  const uint32_t num_blocks = blocks_for(num_inputs);
  const bool same_ledger =
      commit.num_parts() <= num_blocks &&
      commit.ledger_digest() ==
          ledger_digest(sequence->hashes, num_blocks - commit.num_parts(), num_blocks);
  if (!same_ledger) {
    // The sender means other content than was granted: only the own cache can be trusted.
    seams_.log.error("ledger_differs", {{"request", sequence->id.request}});
    const uint32_t cached = sequence->cached_tokens / block_size();
    std::fill(sequence->verified.begin() + cached, sequence->verified.end(), false);
  }
  sequence->todo = missing_ranges(sequence->verified, block_size(), num_inputs, false);
  for (const scheduler::Range& range : sequence->todo) {
    const uint32_t missing = blocks_for(range.end) - range.begin / block_size();
    sequence->counters.set_blocks_recomputed(sequence->counters.blocks_recomputed() + missing);
    if (missing > sequence->corrupt_blocks) {
      seams_.metrics.kv_blocks_recomputed[telemetry::RecomputeReason::kMissing].add(
          missing - sequence->corrupt_blocks);
    }
  }
  sequence->awaits_tail = !sequence->todo.empty();
  sequence->phase = sequence->awaits_tail ? Phase::kPrefill : Phase::kDecode;
  sequence->counters.set_cached_tokens(commit.cached_tokens());
  note_received(*sequence);
  if (commit.multi_chunk() && commit.transfer_us() > 0) {
    // Both durations end now; the last chunk ended before the last part was verified.
    const double exposed =
        std::max(0.0, commit.last_chunk_us_ago() * 1e-6 -
                          to_seconds(seams_.loop.now() - sequence->last_part));
    const double share = std::clamp(1.0 - exposed / (commit.transfer_us() * 1e-6), 0.0, 1.0);
    sequence->counters.set_hidden_share(static_cast<float>(share));
    seams_.metrics.kv_transfer_hidden_share.observe(share);
  } else {
    sequence->counters.set_hidden_share(-1);
  }
  sequence->counters.set_transfer_us(static_cast<uint32_t>(commit.transfer_us()));
  seams_.metrics.kv_transfer_seconds.observe(static_cast<double>(commit.transfer_us()) * 1e-6);
  take_token(*sequence, commit.first_token(), commit.first_logits_digest(), logprobs);
  if (sequence->todo.empty()) publish_ready(*sequence, num_inputs);
  seams_.link.committed(from, grant, epoch);
  if (!finish_if_over(*sequence)) flush_outbox();
  update_heartbeat();
  maybe_start_step();
}

// Prompt tokens that came over the link, for the metrics: what is neither cached nor missing.
void Engine::note_received(Sequence& sequence) {
  uint32_t missing = 0;
  for (const scheduler::Range& range : sequence.todo) missing += range.end - range.begin;
  const uint32_t uncached = sequence.num_inputs - sequence.cached_tokens;
  const uint32_t received = uncached > missing ? uncached - missing : 0;
  sequence.counters.set_received_tokens(received);
  using telemetry::PromptSource;
  auto& by_source = seams_.metrics.prompt_tokens_by_source;
  by_source[PromptSource::kExternalKvTransfer].add(received);
  by_source[PromptSource::kLocalCacheHit].add(sequence.cached_tokens);
}

// Closes the old epoch: from here on nothing of the lost prefill side counts.
void Engine::on_regrant(const wire::Regrant& regrant) {
  const SequenceId id{RequestId{regrant.request()}, Attempt{regrant.attempt()}};
  Sequence* sequence = find(id);
  if (sequence == nullptr || sequence->grant != GrantId{regrant.grant()}) {
    send_nack(id);
    return;
  }
  const Epoch epoch{regrant.epoch()};
  if (epoch < sequence->epoch) return;
  if (sequence->phase == Phase::kGranted && epoch > sequence->epoch) {
    close_landing(*sequence);
    sequence->epoch = epoch;
    sequence->source = Incarnation{regrant.prefill_incarnation()};
    const uint32_t before = sequence->num_inputs;
    sequence->tokens.resize(sequence->reserved_tokens);
    sequence->tokens.insert(sequence->tokens.end(), regrant.new_tokens().begin(),
                            regrant.new_tokens().end());
    sequence->num_inputs = static_cast<uint32_t>(sequence->tokens.size());
    sequence->base = sequence->num_inputs - sequence->prompt_length;
    sequence->acked = sequence->sent = sequence->base;
    if (sequence->num_inputs != before) {
      // The last block got more tokens: what was received of it is no longer whole.
      sequence->verified.resize(blocks_for(sequence->num_inputs), false);
      for (uint32_t b = before / block_size(); b < sequence->verified.size(); ++b) {
        sequence->verified[b] = false;
      }
      sequence->hashes.clear();
      hash_blocks(*sequence);
    }
    open_landing(*sequence);
  }
  wire::Envelope envelope;
  wire::Regranted& regranted = *envelope.mutable_regranted();
  regranted.set_request(id.request.value);
  regranted.set_attempt(id.attempt.value);
  regranted.set_grant(regrant.grant());
  regranted.set_epoch(epoch.value);
  regranted.set_already_committed(sequence->phase != Phase::kGranted);
  regranted.set_cached_tokens(leading_blocks(*sequence) * block_size());
  regranted.set_missing_blocks(static_cast<uint32_t>(
      std::count(sequence->verified.begin(), sequence->verified.end(), false)));
  if (sequence->source != Incarnation{}) {
    regranted.set_link_secret(link_secret(sequence->source));
  }
  send(std::move(envelope));
}

// Prefill into the own grant: compute what is missing, sample, and go on decoding.
void Engine::start_own_prefill(Sequence& sequence, const wire::Prefill& prefill) {
  if (sequence.phase != Phase::kGranted) return;  // repeated, or committed after all
  const Epoch epoch{prefill.epoch()};
  if (epoch < sequence.epoch) return;
  close_landing(sequence);
  sequence.epoch = epoch;
  sequence.source = Incarnation{};
  sequence.committed = true;
  sequence.counters.set_cached_tokens(cached_prompt_tokens(sequence));
  sequence.counters.set_hidden_share(-1);
  sequence.todo = missing_ranges(sequence.verified, block_size(), sequence.num_inputs, true);
  note_received(sequence);
  if (epoch.value > 0) {
    seams_.metrics.kv_blocks_recomputed[telemetry::RecomputeReason::kSenderLost].add(
        static_cast<double>(
            std::count(sequence.verified.begin(), sequence.verified.end(), false)));
  }
  seams_.metrics.prompt_tokens.add(sequence.num_inputs);
  sequence.phase = Phase::kPrefill;
  finish_if_over(sequence);
}

}  // namespace tandem::engine
