#pragma once
// A model with everything it runs on, and the simplest ways to drive it: for parity tests.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/collective/communicator.h"
#include "kernels/ops/backend.h"
#include "model/format/gguf_file.h"
#include "model/spec/model_spec.h"
#include "worker/forward/model.h"

namespace tandem::parity {

struct RigOptions {
  std::string path;
  std::string ops = "reference";
  int threads = 1;
  forward::ModelOptions model{};
};

// Owns a loaded model. Throws std::runtime_error if it can't be loaded.
class ModelRig {
 public:
  explicit ModelRig(const RigOptions& options);

  forward::Model& model() { return *model_; }
  // Blocks never given before, enough for num_tokens tokens.
  std::vector<uint32_t> take_blocks(int64_t num_tokens);
  // All blocks may be given again.
  void reset() { next_block_ = 0; }

 private:
  std::unique_ptr<format::GgufFile> file_;
  std::unique_ptr<ops::Backend> backend_;
  std::unique_ptr<collective::Communicator> comm_;
  std::unique_ptr<forward::Model> model_;
  uint32_t next_block_ = 0;
};

// True if this machine can run the op set.
bool can_run(const std::string& ops);

// One request: a prompt and how many tokens to generate.
struct Script {
  std::vector<int32_t> prompt;
  int32_t num_generate = 1;
  sampling::SamplingParams params{};
  std::vector<uint32_t> blocks{};  // empty: fresh ones
  int32_t num_cached = 0;          // prompt tokens whose KV lies in blocks already
};

struct GeneratedToken {
  int32_t token = 0;
  uint64_t digest = 0;  // of the logits it was drawn from
  bool operator==(const GeneratedToken&) const = default;
};
using Transcript = std::vector<GeneratedToken>;

// Runs all scripts together as a continuous batch: each step takes at most `chunk` prompt tokens of
// every sequence that is still in its prompt, and one token of every other. One transcript each.
std::vector<Transcript> run_together(ModelRig& rig, std::vector<Script> scripts, int32_t chunk);

// One script by itself.
Transcript run_alone(ModelRig& rig, const Script& script, int32_t chunk);

// Logits of every token after `tokens[0 .. i]`, i >= first: [tokens.size() - first][vocab],
// computed in chunks of the model's max_logit_rows.
std::vector<std::vector<float>> teacher_forced_logits(ModelRig& rig,
                                                      std::span<const int32_t> tokens,
                                                      int32_t first);

int32_t argmax(std::span<const float> logits);

}  // namespace tandem::parity
