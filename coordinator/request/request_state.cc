#include "coordinator/request/request_state.h"

#include <algorithm>

namespace tandem::request {

const char* phase_name(Phase phase) {
  switch (phase) {
    case Phase::kQueued: return "queued";
    case Phase::kReserving: return "reserving";
    case Phase::kPrefilling: return "prefilling";
    case Phase::kRegranting: return "regranting";
    case Phase::kDecoding: return "decoding";
  }
  return "unknown";
}

wire::Work make_work(const RequestState& state, uint32_t num_emitted, Duration time_left,
                     bool solo) {
  CHECK_LE(num_emitted, state.ids.size());
  const Request& request = state.request;
  wire::Work work;
  auto* tokens = work.mutable_tokens();
  tokens->Reserve(static_cast<int>(request.prompt.size() + num_emitted));
  tokens->Add(request.prompt.begin(), request.prompt.end());
  tokens->Add(state.ids.begin(), state.ids.begin() + num_emitted);
  work.set_prompt_length(static_cast<uint32_t>(request.prompt.size()));
  work.set_max_tokens(request.max_tokens);
  auto* sampling = work.mutable_sampling();
  sampling->set_temperature(request.sampling.temperature);
  sampling->set_top_k(request.sampling.top_k);
  sampling->set_top_p(request.sampling.top_p);
  sampling->set_min_p(request.sampling.min_p);
  sampling->set_seed(request.sampling.seed);
  sampling->set_num_logprobs(request.sampling.num_logprobs);
  work.mutable_stop_ids()->Add(request.stop_ids.begin(), request.stop_ids.end());
  work.set_ignore_eos(request.ignore_eos);
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(time_left).count();
  work.set_deadline_ms(static_cast<uint32_t>(std::clamp<int64_t>(left, 0, UINT32_MAX)));
  work.set_solo(solo);
  return work;
}

uint64_t chain_digests(const std::vector<uint64_t>& digests, uint32_t num_tokens) {
  uint64_t chain = 0;
  for (uint32_t i = 0; i < num_tokens && i < digests.size(); ++i) {
    if (digests[i] == 0) continue;
    chain = chain * 0x9e3779b97f4a7c15ull + digests[i];
    chain ^= chain >> 32;
    chain *= 0xd6e8feb86659fd93ull;
    chain ^= chain >> 32;
    if (chain == 0) chain = 1;
  }
  return chain;
}

}  // namespace tandem::request
