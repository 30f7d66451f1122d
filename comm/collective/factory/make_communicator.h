#pragma once
// The one place that knows the concrete communicators.

#include <memory>

#include "comm/collective/communicator.h"
#include "comm/runtime/result.h"
#include "kernels/ops/backend.h"

namespace tandem::collective {

// The communicator of an instance with num_ranks ranks. backend outlives the result.
// kUnsupported for more than one rank: this build has no implementation for it.
Result<std::unique_ptr<Communicator>> make_communicator(int32_t num_ranks, ops::Backend& backend);

}  // namespace tandem::collective
