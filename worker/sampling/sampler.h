#pragma once
// One row of logits to one token. The order is a contract:
//   raw logits (digest, log-probabilities) -> temperature -> top_k -> top_p -> min_p -> Gumbel-max
// Bias, penalties and the grammar mask will edit a copy of the row between the raw logits and the
// temperature. Pure functions: any thread, no state but the caller's scratch memory.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "worker/sampling/counter_rng.h"
#include "worker/sampling/filters.h"
#include "worker/sampling/sampling_params.h"

namespace tandem::sampling {

inline constexpr int32_t kMaxTopLogprobs = 20;

struct SampleRequest {
  SamplingParams params{};
  uint32_t choice = 0;
  uint32_t position = 0;      // absolute index of the token to be sampled
  int32_t num_logprobs = -1;  // -1: none; 0: of the sampled token; n: and of the n best
  bool digest = false;
};

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;  // raw log-softmax: of the model's logits, whatever the parameters
};

struct SampleResult {
  bool finite = true;  // false: a logit is NaN or infinite; the request fails, nothing else is set
  int32_t token = -1;
  uint64_t logits_digest = 0;  // XXH3-64 of the raw f32 bits, if asked for
  float logprob = 0;
  std::vector<TokenLogprob> top_logprobs;  // best first
};

// logits: [vocab_size] f32, as the model gave them. Requires: 1 <= vocab_size; validate(params)
// passes; num_logprobs <= kMaxTopLogprobs.
SampleResult sample_row(std::span<const float> logits, const SampleRequest& request,
                        SortScratch& scratch);

// argmax over the survivors of logit / temperature + Gumbel noise, ties to the lowest id. Exposed
// for tests. Requires: logits finite.
int32_t sample_token(std::span<const float> logits, const SamplingParams& params,
                     const NoiseKey& key, SortScratch& scratch);

}  // namespace tandem::sampling
