// BlockPool against a naive model: random leases, forks, publishes and releases over prompts that
// share prefixes, with a full scan after every operation.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "comm/runtime/rng.h"
#include "worker/kv/block_pool.h"

namespace tandem::kv {
namespace {

constexpr uint32_t kBlockSize = 2;
constexpr uint32_t kNumBlocks = 24;

// Content is what really matters: each block carries the tokens that "compute" wrote into it.
struct Model {
  std::map<uint32_t, std::vector<uint32_t>> content;  // block -> all tokens up to its end
};

struct Held {
  BlockLease lease;
  std::vector<uint32_t> tokens;
  std::vector<wire::Hash128> hashes;
  uint32_t num_computed = 0;  // blocks
};

class PoolModel {
 public:
  PoolModel(uint64_t seed, uint32_t hash_bits) : rng_(seed), pool_(kNumBlocks, hash_bits) {}

  void step() {
    switch (rng_.below(6)) {
      case 0:
      case 1: admit(); break;
      case 2:
      case 3: compute(); break;
      case 4: grow(); break;
      default: finish(); break;
    }
    verify();
  }
  uint32_t num_hits() const { return num_hits_; }
  uint32_t num_refusals() const { return num_refusals_; }
  uint64_t num_evictions() const { return pool_.num_evictions(); }

 private:
  void admit() {
    Held held;
    const uint64_t length = 1 + rng_.below(12);
    for (uint64_t i = 0; i < length; ++i) {
      held.tokens.push_back(static_cast<uint32_t>(rng_.below(2)));
    }
    held.hashes = wire::chain_hashes(seed_, held.tokens, kBlockSize);
    const auto num_tokens = static_cast<uint32_t>(length);
    const auto hit = pool_.match({seed_, held.hashes, held.tokens, kBlockSize,
                                  max_cached_blocks(num_tokens, kBlockSize)});
    ASSERT_LT(hit.size() * kBlockSize, length);
    for (size_t i = 0; i < hit.size(); ++i) {  // a hit is the very content asked for
      const std::vector<uint32_t> want(held.tokens.begin(),
                                       held.tokens.begin() + (i + 1) * kBlockSize);
      ASSERT_EQ(model_.content.at(hit[i].value), want);
    }
    const auto total = static_cast<uint32_t>(held.hashes.size());
    const auto fresh = total - static_cast<uint32_t>(hit.size());
    const bool fits = pool_.can_lease(hit, fresh);
    auto lease = pool_.lease({next_key_++, {}, {}}, hit, fresh);
    ASSERT_EQ(lease.has_value(), fits);
    if (!lease) {
      ++num_refusals_;
      return;
    }
    num_hits_ += static_cast<uint32_t>(hit.size());
    for (size_t i = hit.size(); i < total; ++i) {
      model_.content[lease->blocks()[i].value] = {};  // garbage until computed
    }
    held.lease = std::move(*lease);
    held.num_computed = static_cast<uint32_t>(hit.size());
    held_.push_back(std::move(held));
  }

  void compute() {
    if (held_.empty()) return;
    Held& held = held_[rng_.below(held_.size())];
    const size_t whole = held.tokens.size() / kBlockSize;
    if (held.num_computed >= whole) return;
    const uint32_t i = held.num_computed++;
    const BlockId block = held.lease.blocks()[i];
    model_.content[block.value].assign(held.tokens.begin(),
                                       held.tokens.begin() + (i + 1) * kBlockSize);
    const wire::Hash128 parent = i == 0 ? seed_ : held.hashes[i - 1];
    const auto own = std::span(held.tokens).subspan(i * kBlockSize, kBlockSize);
    (void)pool_.publish(block, {parent, held.hashes[i], own});
  }

  void grow() {
    if (held_.empty()) return;
    Held& held = held_[rng_.below(held_.size())];
    const bool fits = pool_.counts().available() >= 1;
    ASSERT_EQ(held.lease.extend(1), fits);
    if (fits) model_.content[held.lease.blocks().back().value] = {};
  }

  void finish() {
    if (held_.empty()) return;
    std::swap(held_[rng_.below(held_.size())], held_.back());
    held_.pop_back();
  }

  void verify() {
    const Status audit = pool_.audit();
    ASSERT_TRUE(audit.ok()) << audit.error().message;
    std::set<BlockId> leased;
    for (const Held& held : held_) {
      leased.insert(held.lease.blocks().begin(), held.lease.blocks().end());
      for (uint32_t i = 0; i < held.num_computed; ++i) {  // nobody else wrote into it
        const std::vector<uint32_t> want(held.tokens.begin(),
                                         held.tokens.begin() + (i + 1) * kBlockSize);
        ASSERT_EQ(model_.content.at(held.lease.blocks()[i].value), want);
      }
    }
    const BlockCounts counts = pool_.counts();
    ASSERT_EQ(counts.leased, leased.size());
    ASSERT_EQ(counts.free + counts.cached + counts.leased, kNumBlocks);
    ASSERT_EQ(pool_.num_leases(), held_.size());
  }

  SplitMix64 rng_;
  const wire::Hash128 seed_ = wire::chain_seed("m", "c", "");
  BlockPool pool_;
  Model model_;
  std::vector<Held> held_;
  uint64_t next_key_ = 1;
  uint32_t num_hits_ = 0;
  uint32_t num_refusals_ = 0;
};

void run(uint64_t seed, uint32_t hash_bits) {
  SCOPED_TRACE("seed " + std::to_string(seed) + " hash bits " + std::to_string(hash_bits));
  PoolModel model(seed, hash_bits);
  for (int i = 0; i < 3000 && !testing::Test::HasFatalFailure(); ++i) model.step();
  EXPECT_GT(model.num_hits(), 50u);
  EXPECT_GT(model.num_refusals(), 10u);
  EXPECT_GT(model.num_evictions(), 50u);
}

TEST(BlockPoolModel, AgreesUnderRandomUse) {
  for (uint64_t seed = 1; seed <= 4; ++seed) run(seed, 128);
}

TEST(BlockPoolModel, AgreesWithAnEightBitHash) {
  for (uint64_t seed = 1; seed <= 4; ++seed) run(seed, 8);
}

}  // namespace
}  // namespace tandem::kv
