#include "worker/sampling/sampler.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "comm/runtime/check.h"
#include "worker/sampling/exact_math.h"
#include "worker/sampling/filters.h"
#include "worker/sampling/tiles.h"

namespace tandem::sampling {
namespace {

Error out_of_range(const char* field, const char* range) {
  return {ErrorCode::kInvalidArgument, std::string(field) + " must be " + range, field};
}

// The running winner of the Gumbel race. Scores are relative to the row's best logit.
class Race {
 public:
  Race(const Candidate& best, double temperature, const NoiseKey& key)
      : best_logit_(best.logit), temperature_(temperature), token_(best.token) {
    score_ = gumbel(token_bits_of(key, static_cast<uint32_t>(best.token)));
  }

  double relative(float logit) const { return (logit - best_logit_) / temperature_; }

  // Whether any noise could make this logit win.
  bool can_win(float logit) const { return relative(logit) + kGumbelMax >= score_; }

  void enter(const Candidate& c, uint32_t bits) {
    const double base = relative(c.logit);
    if (!gumbel_may_exceed(bits, score_ - base)) return;
    const double score = base + gumbel(bits);
    if (score > score_ || (score == score_ && c.token < token_)) {
      score_ = score;
      token_ = c.token;
    }
  }

  int32_t winner() const { return token_; }

 private:
  double best_logit_;
  double temperature_;
  double score_;
  int32_t token_;
};

// Survivors are all ids with logit >= floor.
void race_row(std::span<const float> logits, float floor, const NoiseKey& key, Race& race) {
  const size_t size = logits.size();
  for (size_t first = 0; first < size; first += 4) {
    const size_t end = std::min(first + 4, size);
    float highest = logits[first];
    for (size_t i = first + 1; i < end; ++i) highest = std::max(highest, logits[i]);
    if (highest < floor || !race.can_win(highest)) continue;
    const PhiloxCounter bits = token_bits(key, static_cast<uint32_t>(first / 4));
    for (size_t i = first; i < end; ++i) {
      if (logits[i] < floor) continue;
      race.enter({logits[i], static_cast<int32_t>(i)}, bits[i - first]);
    }
  }
}

int32_t pick(std::span<const float> logits, const RowSummary& summary,
             const SamplingParams& params, const NoiseKey& key, SortScratch& scratch) {
  if (params.temperature <= kGreedyTemperature) return summary.best.token;
  const Survivors survivors = filter(logits, summary, params, scratch);
  Race race(summary.best, params.temperature, key);
  if (survivors.sorted.empty()) {
    race_row(logits, survivors.floor, key, race);
    return race.winner();
  }
  for (const Candidate& c : survivors.sorted) {
    if (!race.can_win(c.logit)) break;  // nor can any later one
    race.enter(c, token_bits_of(key, static_cast<uint32_t>(c.token)));
  }
  return race.winner();
}

SummaryNeeds pick_needs(const SamplingParams& params, size_t vocab_size) {
  if (params.temperature <= kGreedyTemperature) return {};
  return summary_needs(params, static_cast<int32_t>(vocab_size));
}

void add_logprobs(std::span<const float> logits, int32_t num_logprobs, SampleResult& result) {
  const RowSummary raw =
      summarize_row(logits, {.sum_exp = true, .top = num_logprobs > 0, .temperature = 1.0});
  const double log_sum = raw.best.logit + exact_log(raw.sum_exp);
  result.logprob = static_cast<float>(logits[static_cast<size_t>(result.token)] - log_sum);
  const size_t count = std::min<size_t>(raw.top.size(), static_cast<size_t>(num_logprobs));
  for (size_t i = 0; i < count; ++i) {
    result.top_logprobs.push_back(
        {raw.top[i].token, static_cast<float>(raw.top[i].logit - log_sum)});
  }
}

}  // namespace

Status validate(const SamplingParams& p) {
  // Written so that NaN fails every test.
  if (!(p.temperature >= 0.0F) || !std::isfinite(p.temperature)) {
    return out_of_range("temperature", "a finite number of at least 0");
  }
  if (p.top_k < 0) return out_of_range("top_k", "at least 0");
  if (!(p.top_p > 0.0F && p.top_p <= 1.0F)) return out_of_range("top_p", "above 0 and at most 1");
  if (!(p.min_p >= 0.0F && p.min_p <= 1.0F)) return out_of_range("min_p", "between 0 and 1");
  return {};
}

int32_t sample_token(std::span<const float> logits, const SamplingParams& params,
                     const NoiseKey& key, SortScratch& scratch) {
  const RowSummary summary = summarize_row(logits, pick_needs(params, logits.size()));
  CHECK(summary.finite);
  return pick(logits, summary, params, key, scratch);
}

SampleResult sample_row(std::span<const float> logits, const SampleRequest& request,
                        SortScratch& scratch) {
  CHECK(!logits.empty());
  CHECK_LE(request.num_logprobs, kMaxTopLogprobs);
  SampleResult result;
  if (request.digest) result.logits_digest = XXH3_64bits(logits.data(), logits.size_bytes());
  const RowSummary summary = summarize_row(logits, pick_needs(request.params, logits.size()));
  result.finite = summary.finite;
  if (!result.finite) return result;
  result.token = pick(logits, summary, request.params,
                      {request.params.seed, request.choice, request.position}, scratch);
  if (request.num_logprobs >= 0) add_logprobs(logits, request.num_logprobs, result);
  return result;
}

}  // namespace tandem::sampling
