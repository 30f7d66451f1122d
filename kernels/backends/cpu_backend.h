#pragma once
// The factory: the one place that knows the concrete backends.

#include <memory>
#include <string_view>

#include "kernels/ops/backend.h"

namespace tandem::backends {

// name: auto | reference | avx2 | avx512 (the `ops` knob); auto takes the fastest this machine can
// run. threads: of the caller and its helpers together, >= 1.
// Throws UnsupportedError, naming what is missing and what to set, if this machine or this build
// can't run it, or the name is unknown.
std::unique_ptr<ops::Backend> make_cpu_backend(std::string_view name, int threads);

}  // namespace tandem::backends
