#pragma once
// The plan a worker runs before it joins: touches weights and scratch, finds a model that computes
// no numbers, and seeds the prediction of a step's duration.

#include "comm/runtime/clock.h"
#include "comm/runtime/result.h"
#include "worker/forward/model.h"

namespace tandem::engine {

// Runs a prompt chunk of at most `chunk` tokens and some decodes in the first KV blocks; returns
// what the costlier kind takes per token. kCorrupt when the model's values are not finite.
// Compute thread; no sequence may hold blocks. Throws tensor::DeviceError. Requires: chunk >= 1.
Result<Duration> warm_up(forward::Model& model, const Clock& clock, int64_t chunk);

}  // namespace tandem::engine
