#pragma once
// Golden outputs of real implementations, read from JSON (formats: README beside the files).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tandem::parity {

struct GoldenCase {
  std::string name;
  std::vector<int32_t> ids;          // the prompt
  std::vector<int32_t> argmax;       // of every prompt position; may be empty
  std::vector<int32_t> greedy_ids;   // continuation
  std::vector<float> greedy_gaps;    // best minus second-best logit at each step
  std::vector<int32_t> logit_ids;    // ids whose logits after the prompt are known
  std::vector<float> logits;         // [logit_ids.size()]
};

// Throws std::runtime_error if the file can't be read.
std::vector<GoldenCase> read_golden(const std::string& path);

// The model file of the tiny llama in `type` ("Q4_1"), its golden beside it; kept in the source.
std::string tiny_model_path(const std::string& type);
std::string tiny_golden_path(const std::string& type);

// SmolLM2 in the user's model cache and its goldens beside the source; nothing when absent, with
// what is missing in `why`.
struct SmolLm2Paths {
  std::string model;
  std::string golden;
};
std::optional<SmolLm2Paths> find_smollm2(std::string& why);

// Whether the long tests were asked for (tests/run.sh --full).
bool full_run();

}  // namespace tandem::parity
