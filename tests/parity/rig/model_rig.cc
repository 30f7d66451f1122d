#include "tests/parity/rig/model_rig.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "comm/collective/factory/make_communicator.h"
#include "comm/runtime/check.h"
#include "kernels/backends/cpu_backend.h"
#include "kernels/tensor/device_error.h"

namespace tandem::parity {
namespace {

template <typename T>
T value_of(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}

// A script in the middle of its run.
struct Running {
  Script script;
  std::vector<int32_t> tokens;  // prompt and generated
  size_t num_computed = 0;
  Transcript transcript;

  bool done() const { return static_cast<int32_t>(transcript.size()) >= script.num_generate; }
};

Running start(ModelRig& rig, Script script) {
  Running running;
  running.tokens = script.prompt;
  running.num_computed = static_cast<size_t>(script.num_cached);
  if (script.blocks.empty()) {
    script.blocks = rig.take_blocks(static_cast<int64_t>(script.prompt.size()) +
                                    script.num_generate);
  }
  running.script = std::move(script);
  return running;
}

forward::StepEntry next_entry(const Running& r, int32_t chunk) {
  const size_t count = std::min<size_t>(r.tokens.size() - r.num_computed,
                                        static_cast<size_t>(chunk));
  return {.tokens = std::span(r.tokens).subspan(r.num_computed, count),
          .start_position = static_cast<int32_t>(r.num_computed),
          .block_table = r.script.blocks,
          .sample = r.num_computed + count == r.tokens.size(),
          .params = r.script.params,
          .digest = true};
}

}  // namespace

ModelRig::ModelRig(const RigOptions& options)
    : file_(std::make_unique<format::GgufFile>(value_of(format::GgufFile::open(options.path)))),
      backend_(backends::make_cpu_backend(options.ops, options.threads)),
      comm_(value_of(collective::make_communicator(1, *backend_))),
      model_(value_of(forward::Model::load(*file_, value_of(spec::read_spec(*file_)),
                                           {*backend_, *comm_}, options.model))) {}

std::vector<uint32_t> ModelRig::take_blocks(int64_t num_tokens) {
  const int64_t block_size = model_->options().block_size;
  std::vector<uint32_t> blocks;
  for (int64_t covered = 0; covered < num_tokens; covered += block_size) {
    blocks.push_back(next_block_++);
  }
  CHECK_LE(static_cast<int64_t>(next_block_), model_->options().num_blocks);
  return blocks;
}

bool can_run(const std::string& ops) {
  try {
    backends::make_cpu_backend(ops, 1);
    return true;
  } catch (const tensor::UnsupportedError&) {
    return false;
  }
}

std::vector<Transcript> run_together(ModelRig& rig, std::vector<Script> scripts, int32_t chunk) {
  std::vector<Running> all;
  for (Script& script : scripts) all.push_back(start(rig, std::move(script)));
  while (true) {
    forward::StepBatch batch;
    std::vector<Running*> members;
    for (Running& r : all) {
      if (r.done()) continue;
      members.push_back(&r);
      batch.push_back(next_entry(r, chunk));
    }
    if (batch.empty()) break;
    const forward::StepOutput out = rig.model().run(batch);
    for (size_t i = 0; i < members.size(); ++i) {
      Running& r = *members[i];
      r.num_computed += batch[i].tokens.size();
      if (!batch[i].sample) continue;
      const sampling::SampleResult& sample = out.entries[i].sample;
      CHECK(out.entries[i].finite && sample.finite);
      r.tokens.push_back(sample.token);
      r.transcript.push_back({sample.token, sample.logits_digest});
    }
  }
  std::vector<Transcript> transcripts;
  for (Running& r : all) transcripts.push_back(std::move(r.transcript));
  return transcripts;
}

Transcript run_alone(ModelRig& rig, const Script& script, int32_t chunk) {
  return run_together(rig, {script}, chunk)[0];
}

std::vector<std::vector<float>> teacher_forced_logits(ModelRig& rig,
                                                      std::span<const int32_t> tokens,
                                                      int32_t first) {
  const auto blocks = rig.take_blocks(static_cast<int64_t>(tokens.size()));
  const forward::ModelOptions& options = rig.model().options();
  const auto vocab = static_cast<size_t>(rig.model().spec().vocab);
  std::vector<std::vector<float>> rows;
  for (size_t at = 0; at < tokens.size();) {
    const bool wanted = at >= static_cast<size_t>(first);
    const size_t end = wanted ? tokens.size() : static_cast<size_t>(first);
    const int64_t most = wanted ? std::min(options.max_logit_rows, options.max_tokens)
                                : options.max_tokens;
    const size_t count = std::min(end - at, static_cast<size_t>(most));
    const forward::StepOutput out = rig.model().run(
        {{.tokens = tokens.subspan(at, count),
          .start_position = static_cast<int32_t>(at),
          .block_table = blocks,
          .return_logits = wanted ? forward::ReturnLogits::kAll : forward::ReturnLogits::kNone}});
    const std::vector<float>& logits = out.entries[0].logits;
    for (size_t i = 0; i < logits.size(); i += vocab) {
      rows.emplace_back(logits.begin() + static_cast<ptrdiff_t>(i),
                        logits.begin() + static_cast<ptrdiff_t>(i + vocab));
    }
    at += count;
  }
  return rows;
}

int32_t argmax(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace tandem::parity
