#include "comm/kvlink/tcp/landing_registry.h"

#include <cstring>
#include <utility>

#include "comm/runtime/check.h"

namespace tandem::kvlink {

void LandingRegistry::expect(Incarnation source, uint64_t secret) {
  std::lock_guard lock(mutex_);
  secrets_[source] = secret;
}

void LandingRegistry::forget(Incarnation source) {
  std::lock_guard lock(mutex_);
  secrets_.erase(source);
}

bool LandingRegistry::expects(Incarnation source) const {
  std::lock_guard lock(mutex_);
  return secrets_.contains(source);
}

bool LandingRegistry::admits(Incarnation source, uint64_t secret) const {
  std::lock_guard lock(mutex_);
  const auto found = secrets_.find(source);
  return found != secrets_.end() && found->second == secret;
}

void LandingRegistry::open(Landing landing) {
  CHECK_EQ(landing.chain_hashes.size(), landing.blocks.size());
  const GrantId grant = landing.grant;
  const size_t num_blocks = landing.blocks.size();
  std::lock_guard lock(mutex_);
  landings_[grant] = {std::move(landing), next_id_++, std::vector<bool>(num_blocks, false)};
}

void LandingRegistry::close(GrantId grant) {
  std::lock_guard lock(mutex_);
  landings_.erase(grant);
}

bool LandingRegistry::is_open(GrantId grant, uint64_t landing_id) const {
  std::lock_guard lock(mutex_);
  const auto found = landings_.find(grant);
  return found != landings_.end() && found->second.id == landing_id;
}

Deposit LandingRegistry::deposit(Incarnation source, const wire::Push& push,
                                 std::span<const std::byte> payload, bool checksum_ok,
                                 bool must_agree) {
  std::lock_guard lock(mutex_);
  if (!secrets_.contains(source)) return {};
  const auto found = landings_.find(GrantId(push.grant()));
  if (found == landings_.end()) return {};
  Open& open = found->second;
  const Landing& landing = open.landing;
  const uint32_t index = push.block_index();
  if (landing.source != source || landing.epoch != Epoch(push.epoch())) return {};
  if (index < landing.first_block || index >= landing.blocks.size()) return {};
  if (open.written[index]) return {};
  const wire::Hash128 chain{push.chain_hash_low(), push.chain_hash_high()};
  const bool agrees = checksum_ok && chain == landing.chain_hashes[index];
  const std::span<std::byte> block = landing.blocks[index];
  if (payload.size() != block.size() || (must_agree && !agrees)) {
    return {DepositOutcome::kCorrupt, open.id};
  }
  std::memcpy(block.data(), payload.data(), payload.size());
  open.written[index] = true;
  return {DepositOutcome::kVerified, open.id};
}

}  // namespace tandem::kvlink
