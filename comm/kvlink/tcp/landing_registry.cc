#include "comm/kvlink/tcp/landing_registry.h"

#include <cstring>
#include <utility>

#include "comm/runtime/check.h"

namespace tandem::kvlink {

void LandingRegistry::expect(Incarnation source, uint64_t secret) {
  std::lock_guard lock(mutex_);
  const auto found = expected_.find(source);
  if (found != expected_.end() && found->second.secret == secret) return;
  expected_[source] = {secret, next_id_++};
}

void LandingRegistry::forget(Incarnation source) {
  std::lock_guard lock(mutex_);
  expected_.erase(source);
}

void LandingRegistry::reincarnate(Incarnation self) {
  std::lock_guard lock(mutex_);
  self_ = self;
  expected_.clear();
  landings_.clear();
}

Result<Session> LandingRegistry::admit(const wire::LinkHello& hello) const {
  const auto refuse = [](const char* why) { return Error{ErrorCode::kFenced, why, ""}; };
  const Incarnation source(hello.from_incarnation());
  std::lock_guard lock(mutex_);
  if (Incarnation(hello.to_incarnation()) != self_) return refuse("this is another incarnation");
  const auto found = expected_.find(source);
  if (found == expected_.end()) return refuse("the sender's incarnation isn't expected");
  if (found->second.secret != hello.link_secret()) return refuse("wrong link secret");
  return Session{source, found->second.session_id};
}

bool LandingRegistry::is_current_locked(const Session& session) const {
  const auto found = expected_.find(session.source);
  return found != expected_.end() && found->second.session_id == session.id;
}

bool LandingRegistry::is_current(const Session& session) const {
  std::lock_guard lock(mutex_);
  return is_current_locked(session);
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

Deposit LandingRegistry::deposit(const Session& session, const wire::Push& push,
                                 std::span<const std::byte> payload, bool checksum_ok,
                                 bool must_agree) {
  std::lock_guard lock(mutex_);
  if (!is_current_locked(session)) return {};
  const auto found = landings_.find(GrantId(push.grant()));
  if (found == landings_.end()) return {};
  Open& open = found->second;
  const Landing& landing = open.landing;
  const uint32_t index = push.block_index();
  if (landing.source != session.source || landing.epoch != Epoch(push.epoch())) return {};
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
