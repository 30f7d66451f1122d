#pragma once
// What one rendering may cost at most.

#include <cstdint>

namespace tandem::chat_template {

struct RenderLimits {
  uint64_t max_steps = 2'000'000;            // evaluated nodes and items touched
  uint64_t max_bytes = uint64_t{256} << 20;  // of all values made on the way
  uint64_t max_output_bytes = uint64_t{16} << 20;
  int max_depth = 300;                       // nested evaluations, macros calling macros
};

}  // namespace tandem::chat_template
