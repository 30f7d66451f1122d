#include "comm/wire/token_hash.h"

#include <xxhash.h>

#include <algorithm>
#include <string>

#include "comm/runtime/check.h"

namespace tandem::wire {
namespace {

Hash128 digest(const void* data, size_t num_bytes, uint64_t seed) {
  const XXH128_hash_t h = XXH3_128bits_withSeed(data, num_bytes, seed);
  return {h.low64, h.high64};
}

}  // namespace

Hash128 chain_seed(std::string_view model_digest, std::string_view numerics_class,
                   std::string_view tenant_salt) {
  std::string text;
  for (std::string_view part : {model_digest, numerics_class, tenant_salt}) {
    text += std::to_string(part.size()) + ":";
    text += part;
  }
  return digest(text.data(), text.size(), 0);
}

Hash128 chain_next(const Hash128& parent, std::span<const uint32_t> tokens) {
  // The parent's high half goes in front of the tokens, its low half is the seed.
  std::vector<uint32_t> words(2 + tokens.size());
  words[0] = static_cast<uint32_t>(parent.high);
  words[1] = static_cast<uint32_t>(parent.high >> 32);
  std::copy(tokens.begin(), tokens.end(), words.begin() + 2);
  return digest(words.data(), words.size() * sizeof(uint32_t), parent.low);
}

std::vector<Hash128> chain_hashes(const Hash128& seed, std::span<const uint32_t> tokens,
                                  uint32_t block_size) {
  CHECK_GT(block_size, 0u);
  std::vector<Hash128> hashes;
  Hash128 parent = seed;
  for (size_t at = 0; at < tokens.size(); at += block_size) {
    parent = chain_next(parent, tokens.subspan(at, std::min<size_t>(block_size,
                                                                    tokens.size() - at)));
    hashes.push_back(parent);
  }
  return hashes;
}

uint64_t payload_checksum(const void* data, size_t num_bytes) {
  return XXH3_64bits(data, num_bytes);
}

}  // namespace tandem::wire
