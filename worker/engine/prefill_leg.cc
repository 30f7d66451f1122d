// The prefill side of a hand-over: compute, push each block once, commit; keep the source.
#include <algorithm>
#include <utility>

#include "comm/runtime/planted.h"
#include "worker/engine/engine.h"

namespace tandem::engine {
namespace {

constexpr Duration kLinkRetry = std::chrono::milliseconds(200);

}  // namespace

void Engine::on_prefill(const wire::Prefill& prefill) {
  const SequenceId id{RequestId{prefill.request()}, Attempt{prefill.attempt()}};
  Sequence* known = find(id);
  if (Incarnation{prefill.grant().incarnation()} == incarnation_) {
    const bool fits = known != nullptr && known->grant == GrantId{prefill.grant().grant()} &&
                      (known->phase != Phase::kGranted ||
                       known->num_inputs == prefill.num_tokens());
    if (!fits) {
      send_nack(id);
      return;
    }
    start_own_prefill(*known, prefill);
    flush_outbox();
    return;
  }
  if (known != nullptr) return;  // repeated
  Sequence& sequence = add(id, LegKind::kPrefillLeg, prefill.work());
  set_target(sequence, prefill.grant(), Epoch{prefill.epoch()});
  seams_.metrics.prompt_tokens.add(sequence.num_inputs);
  if (blocks_for(sequence.num_inputs) > pool_.counts().total) {
    finish(sequence, wire::Finished::ERROR,
           "the prompt needs more KV blocks than " + options_.instance + " has");
  } else if (!finish_if_over(sequence)) {
    admit_waiting();
  }
  flush_outbox();
}

void Engine::set_target(Sequence& sequence, const wire::GrantRef& grant, Epoch epoch) {
  sequence.grant = GrantId{grant.grant()};
  sequence.epoch = epoch;
  sequence.target = {grant.instance(), Incarnation{grant.incarnation()}, grant.link_endpoint(),
                     grant.link_secret()};
  sequence.first_push = grant.cached_tokens() / block_size();
  sequence.next_push = sequence.first_push;
  sequence.commit_known = false;
  sequence.link_down = false;
  sequence.link_lost_since = TimePoint{};
  sequence.first_part_at = TimePoint{};
}

// The decode side died: the blocks go to another one, from the source lease.
void Engine::on_retarget(const wire::Retarget& retarget) {
  const SequenceId id{RequestId{retarget.request()}, Attempt{retarget.attempt()}};
  if (find(id) != nullptr) return;  // repeated
  const SequenceId old_id{id.request, Attempt{retarget.old_attempt()}};
  Sequence* sequence = find(old_id);
  if (sequence == nullptr || sequence->is_decode_leg()) {
    wire::Envelope envelope;
    wire::NoSource& no_source = *envelope.mutable_no_source();
    no_source.set_request(id.request.value);
    no_source.set_attempt(id.attempt.value);
    no_source.set_message("the source lease is over");
    send(std::move(envelope));
    return;
  }
  seams_.link.drop(sequence->grant, sequence->epoch);
  by_id_.erase(old_id);
  sequence->id = id;
  by_id_[id] = sequence->key;
  sequence->lease_until = now() + options_.deadlines.source_lease;
  set_target(*sequence, retarget.grant(), Epoch{retarget.epoch()});
  sequence->acked = sequence->sent = sequence->base;  // told again under the new attempt
  if (sequence->finished) sequence->finished_sent_at = TimePoint{};
  push_ready(*sequence);
  if (sequence->phase == Phase::kSource) send_commit(*sequence);
  flush_outbox();
}

// Pushes every block that is whole, or the last one once the prompt is done. Each once per epoch.
void Engine::push_ready(Sequence& sequence) {
  if (sequence.is_decode_leg() || !sequence.blocks.held()) return;
  if (sequence.link_down) return;
  const uint32_t done = computed_prefix(sequence);
  const uint32_t num_blocks = blocks_for(sequence.num_inputs);
  const auto table = sequence.blocks.blocks();
  while (sequence.next_push < num_blocks) {
    const uint32_t end = std::min((sequence.next_push + 1) * block_size(), sequence.num_inputs);
    if (end > done) break;
    kvlink::Part part;
    part.grant = sequence.grant;
    part.epoch = sequence.epoch;
    part.block_index = sequence.next_push;
    part.chain_hash = sequence.hashes[sequence.next_push];
    part.bytes = seams_.executor.block_bytes(table[sequence.next_push]);
    if (sequence.first_part_at == TimePoint{}) sequence.first_part_at = seams_.loop.now();
    seams_.link.push(sequence.target, part);
    ++sequence.next_push;
  }
}

void Engine::send_commit(Sequence& sequence) {
  if (sequence.link_down) return;  // goes out with the retry
  CHECK_GT(sequence.outputs(), sequence.base);
  wire::Commit commit;
  commit.set_grant(sequence.grant.value);
  commit.set_epoch(sequence.epoch.value);
  commit.set_request(sequence.id.request.value);
  commit.set_attempt(sequence.id.attempt.value);
  commit.set_first_token(sequence.tokens[sequence.num_inputs]);
  commit.set_first_logits_digest(sequence.digests[0]);
  if (sequence.sampling.num_logprobs() >= 0) {
    commit.set_first_logprobs(sequence.logprobs[0].SerializeAsString());
  }
  const uint32_t num_blocks = blocks_for(sequence.num_inputs);
  commit.set_num_parts(num_blocks - sequence.first_push);
  commit.set_ledger_digest(ledger_digest(sequence.hashes, sequence.first_push, num_blocks));
  commit.set_cached_tokens(cached_prompt_tokens(sequence));
  commit.set_multi_chunk(sequence.num_chunks > 1);
  const auto us_since = [&](TimePoint then) {
    return std::chrono::duration_cast<std::chrono::microseconds>(seams_.loop.now() - then)
        .count();
  };
  commit.set_last_chunk_us_ago(us_since(sequence.last_chunk_at));
  if (sequence.first_part_at != TimePoint{}) {
    commit.set_transfer_us(us_since(sequence.first_part_at));
  }
  seams_.link.commit(sequence.target, commit);
}

void Engine::on_part_sent(GrantId grant, Epoch epoch, uint32_t) {
  for (auto& [key, sequence] : sequences_) {
    if (sequence->is_decode_leg() || sequence->doomed) continue;
    if (sequence->grant != grant || sequence->epoch != epoch) continue;
    const uint64_t block_bytes = options_.descriptor.kv().block_bytes();
    sequence->counters.set_bytes_sent(sequence->counters.bytes_sent() + block_bytes);
    seams_.metrics.kv_transfer_bytes[telemetry::TransferDirection::kSent].add(
        static_cast<double>(block_bytes));
    sequence->link_lost_since = TimePoint{};
  }
}

void Engine::on_committed(GrantId grant, Epoch epoch) {
  for (auto& [key, sequence] : sequences_) {
    if (sequence->is_decode_leg() || sequence->doomed) continue;
    if (sequence->grant != grant || sequence->epoch != epoch) continue;
    sequence->commit_known = true;
    sequence->link_lost_since = TimePoint{};
  }
}

void Engine::on_link_lost(const kvlink::PeerAddress& peer, const std::string& why) {
  for (auto& [key, sequence] : sequences_) {
    if (sequence->is_decode_leg() || sequence->doomed || sequence->commit_known) continue;
    if (sequence->target != peer) continue;
    if (sequence->finished) continue;  // nothing to hand over
    if (sequence->link_lost_since == TimePoint{}) sequence->link_lost_since = now();
    sequence->link_down = true;
    sequence->link_retry_at = now() + kLinkRetry;
    seams_.log.info("link_lost", {{"peer", peer.instance}, {"why", why}});
  }
}

// A lost connection lost a suffix: everything of the epoch goes out again, the decode side takes
// each part once. Given up after link_open; the coordinator then closes the pair.
void Engine::retry_links() {
  for (auto& [key, sequence] : sequences_) {
    if (sequence->is_decode_leg() || sequence->doomed) continue;
    if (!sequence->link_down || now() < sequence->link_retry_at) continue;
    if (now() - sequence->link_lost_since > options_.deadlines.link_open) {
      wire::Envelope envelope;
      wire::PartFailed& failed = *envelope.mutable_part_failed();
      failed.set_request(sequence->id.request.value);
      failed.set_attempt(sequence->id.attempt.value);
      failed.set_epoch(sequence->epoch.value);
      failed.set_message("no link to " + sequence->target.instance + " at " +
                         sequence->target.endpoint);
      send(std::move(envelope));
      sequence->link_retry_at = now() + options_.deadlines.resend;
      continue;
    }
    sequence->link_down = false;
    sequence->next_push = sequence->first_push;
    push_ready(*sequence);
    if (sequence->phase == Phase::kSource) send_commit(*sequence);
  }
}

}  // namespace tandem::engine
