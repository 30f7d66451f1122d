#pragma once
// What the parts of a worker are told, derived from the configuration and the model. Pure
// functions; a value that can't work throws StartupError naming the key and what to write.

#include <cstdint>
#include <string>
#include <vector>

#include "comm/kvlink/tcp/tcp_link_options.h"
#include "comm/wire/control.pb.h"
#include "configs/schema/config.h"
#include "kernels/ops/layouts.h"
#include "model/format/gguf_file.h"
#include "model/spec/model_spec.h"
#include "worker/engine/engine.h"
#include "worker/forward/model.h"

namespace tandem::worker {

// The shortest sequence (or the whole context, if that is less) that a pool must have room for.
inline constexpr int64_t kMinPoolTokens = 256;
// Prompts that may advance in one step.
inline constexpr int64_t kMaxPrefillSequences = 8;

// Sizes of the model's memory: kv_memory in whole blocks, the longest sequence, the widest step.
forward::ModelOptions model_options(const config::Config& config, const std::string& instance,
                                    const spec::ModelSpec& spec);

// Ids that end an answer, as the model file names them; none when it names none.
std::vector<uint32_t> eos_ids(const format::GgufFile& file);

// What the instance says of itself when it joins; link endpoints are added by the engine.
wire::Descriptor make_descriptor(const forward::Model& model, const std::string& model_digest,
                                 const config::Config& config, const std::string& instance);

// All but pid, launcher_pid, metrics_url, eos_ids and seconds_per_token.
engine::Options engine_options(const config::Config& config, const std::string& instance,
                               wire::Descriptor descriptor);

kvlink::TcpLinkOptions link_options(const config::Config& config, const std::string& instance,
                                    const wire::Descriptor& descriptor, Incarnation incarnation);

}  // namespace tandem::worker
