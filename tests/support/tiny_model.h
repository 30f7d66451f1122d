#pragma once
// Small llama models with seeded random weights, for tests that need a model of a given shape.

#include <cstdint>
#include <string>

#include "model/format/gguf_file.h"
#include "model/spec/model_spec.h"
#include "tests/support/gguf_writer.h"

namespace tandem::support {

struct TinyModel {
  spec::ModelSpec spec;
  // Of all matrices; norms are F32. Rows must hold whole blocks.
  format::TensorType type = format::TensorType::kF32;
  uint64_t seed = 1;
  // A GGUF file whose tokenizer.* keys are copied; empty: none are written. Its vocabulary must
  // have spec.vocab tokens.
  std::string tokenizer_from;
};

// hidden 64, 2 layers, 4:2 heads of 16, FFN 96, vocabulary 512, context 512, tied: 0.3 MB as F32.
spec::ModelSpec tiny_spec();

// The writer with metadata and tensors of the model, to be changed further or written as it is.
// The same model gives the same bytes.
GgufWriter tiny_model_writer(const TinyModel& model);
void write_tiny_model(const std::string& path, const TinyModel& model);

// The tiny models of the source tree: tests/golden/gguf/llama-TYPE.gguf.
std::string golden_model_path(const std::string& type);

}  // namespace tandem::support
