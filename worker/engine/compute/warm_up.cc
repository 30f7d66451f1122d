#include "worker/engine/compute/warm_up.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace tandem::engine {
namespace {

constexpr int kNumDecodes = 3;  // the first one still meets cold caches

}  // namespace

Result<Duration> warm_up(forward::Model& model, const Clock& clock, int64_t chunk) {
  CHECK_GE(chunk, 1);
  const forward::ModelOptions& options = model.options();
  const int64_t room =
      std::min(options.num_blocks * options.block_size, options.max_context);
  const int64_t num_prompt =
      std::clamp<int64_t>(std::min(chunk, options.max_tokens), 1, room - kNumDecodes);
  std::vector<uint32_t> blocks;
  for (int64_t i = 0; i * options.block_size < num_prompt + kNumDecodes; ++i) {
    blocks.push_back(static_cast<uint32_t>(i));
  }
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < num_prompt; ++i) {
    tokens.push_back(static_cast<int32_t>(i % model.spec().vocab));
  }
  const auto step = [&](std::span<const int32_t> inputs, int64_t begin) -> Result<Duration> {
    const TimePoint began = clock.now();
    const forward::StepOutput out =
        model.run({{.tokens = inputs,
                    .start_position = static_cast<int32_t>(begin),
                    .block_table = blocks,
                    .sample = true,
                    .params = {.temperature = 0}}});
    if (!out.entries[0].finite || !out.entries[0].sample.finite) {
      return Error{ErrorCode::kCorrupt, "the model computes values that are not finite numbers",
                   "model.path"};
    }
    return (clock.now() - began) / static_cast<int64_t>(inputs.size());
  };
  const Result<Duration> prefill = step(tokens, 0);
  if (!prefill) return prefill.error();
  Duration slowest = *prefill;
  for (int64_t i = 0; i < kNumDecodes; ++i) {
    const Result<Duration> decode = step(std::span(tokens).first(1), num_prompt + i);
    if (!decode) return decode.error();
    slowest = std::max(slowest, *decode);
  }
  return slowest;
}

}  // namespace tandem::engine
