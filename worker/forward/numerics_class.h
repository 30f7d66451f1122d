#pragma once
// The numerics class: two instances of equal class give the same bits for the same request.

#include <string>

#include "kernels/ops/backend.h"
#include "model/spec/model_spec.h"

namespace tandem::forward {

struct NumericsClass {
  std::string text;  // "backend=…; forward=…; kv=bf16; …": for messages and `inspect`
  std::string hash;  // 32 hexadecimal digits over text: for handshakes and block hashes
};

// Covers backend, instruction set, revisions of kernels, forward pass and sampling, KV dtype and
// tile format, weight and activation recipe, rope tables. Tensor parallelism over whole leaves
// keeps the bits and therefore is not in it; neither are batch, chunk, thread or block sizes.
NumericsClass numerics_class(const ops::Backend& backend, const spec::ModelSpec& spec,
                             tensor::DType kv_dtype);

}  // namespace tandem::forward
