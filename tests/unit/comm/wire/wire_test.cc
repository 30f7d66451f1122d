#include <gtest/gtest.h>

#include "comm/wire/codec.h"
#include "comm/wire/limits.h"
#include "comm/wire/token_hash.h"

namespace tandem::wire {
namespace {

// Written down once; it must never change without a new protocol version.
constexpr uint64_t kVectorLow = 17880253003439663115ull;
constexpr uint64_t kVectorHigh = 10383345323321959587ull;

TEST(Codec, RoundTripsAnEnvelope) {
  Envelope envelope;
  envelope.set_to_incarnation(7);
  envelope.mutable_nack()->set_request(42);
  const auto back = decode(encode(envelope));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->nack().request(), 42u);
  EXPECT_STREQ(body_name(back->body_case()), "nack");
}

TEST(Codec, RefusesGarbageEmptyAndOversize) {
  EXPECT_EQ(decode("\xff\xff\xff").error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(decode("").error().field, "body");
  EXPECT_EQ(decode(std::string(kMaxControlBytes + 1, '\0')).error().field, "size");
}

TEST(TokenHash, ChainDependsOnEveryTokenAndTheSeed) {
  const Hash128 seed = chain_seed("m", "n", "");
  std::vector<uint32_t> tokens(70);
  for (uint32_t i = 0; i < 70; ++i) tokens[i] = i;
  const auto base = chain_hashes(seed, tokens, 32);
  ASSERT_EQ(base.size(), 3u);
  tokens[3] = 99;
  const auto changed = chain_hashes(seed, tokens, 32);
  for (size_t i = 0; i < 3; ++i) EXPECT_NE(base[i], changed[i]);
  EXPECT_NE(seed, chain_seed("mn", "", ""));
}

TEST(TokenHash, PublishedVector) {
  const std::vector<uint32_t> tokens = {1, 2, 3, 4};
  const auto hashes = chain_hashes(chain_seed("model", "class", "tenant"), tokens, 2);
  ASSERT_EQ(hashes.size(), 2u);
  EXPECT_EQ(hashes[1].low, kVectorLow);
  EXPECT_EQ(hashes[1].high, kVectorHigh);
}

}  // namespace
}  // namespace tandem::wire
