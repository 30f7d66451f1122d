#include "worker/forward/model.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "comm/runtime/check.h"
#include "worker/forward/forward_pass.h"
#include "worker/forward/rope_table.h"

namespace tandem::forward {
namespace {

Error bad_option(const char* field, const std::string& why) {
  return {ErrorCode::kInvalidArgument, std::string(field) + " " + why, field};
}

Status check_options(const ModelOptions& o, const spec::ModelSpec& spec,
                     const ops::Capabilities& can) {
  if (o.num_blocks < 1) return bad_option("num_blocks", "must be at least 1");
  if (o.block_size != 16 && o.block_size != 32 && o.block_size != 64) {
    return bad_option("block_size", "must be 16, 32 or 64");
  }
  if (o.max_tokens < 1) return bad_option("max_tokens", "must be at least 1");
  if (o.max_sequences < 1) return bad_option("max_sequences", "must be at least 1");
  if (o.max_logit_rows < 1) return bad_option("max_logit_rows", "must be at least 1");
  if (o.max_context < 1 || o.max_context > spec.max_context) {
    return bad_option("max_context", std::to_string(o.max_context) + " is outside 1 to " +
                                         std::to_string(spec.max_context) +
                                         ", what the model was trained for");
  }
  if (!can.can_store_kv(o.kv_dtype)) {
    return bad_option("kv_dtype", std::string(tensor::dtype_name(o.kv_dtype)) +
                                      " is not supported by this op set");
  }
  if (spec.head_dim > can.max_head_dim ||
      spec.heads_per_kv_head() > can.max_query_heads_per_kv_head) {
    return Error{ErrorCode::kUnsupported,
                 "heads of width " + std::to_string(spec.head_dim) + ", " +
                     std::to_string(spec.heads_per_kv_head()) +
                     " per KV head, are more than this op set computes",
                 "head_dim"};
  }
  return {};
}

ModelOptions with_defaults(ModelOptions o, const spec::ModelSpec& spec) {
  if (o.max_logit_rows == 0) o.max_logit_rows = o.max_sequences;
  if (o.max_context == 0) o.max_context = spec.max_context;
  return o;
}

bool all_finite(std::span<const float> values) {
  constexpr uint32_t kExponent = 0x7F800000;
  bool finite = true;
  for (float x : values) finite &= (std::bit_cast<uint32_t>(x) & kExponent) != kExponent;
  return finite;
}

StepLimits step_limits(const ModelOptions& o, const spec::ModelSpec& spec) {
  return {.max_tokens = o.max_tokens,
          .max_sequences = o.max_sequences,
          .max_logit_rows = o.max_logit_rows,
          .max_context = o.max_context,
          .block_size = o.block_size,
          .num_blocks = o.num_blocks,
          .vocab = spec.vocab};
}

}  // namespace

struct Model::Parts {
  const spec::ModelSpec& spec;
  const ModelOptions& options;
  weights::ShardPlan plan;
  const ModelDevices& devices;
  weights::ModelWeights weights;
};

Result<std::unique_ptr<Model>> Model::load(const format::GgufFile& file,
                                           const spec::ModelSpec& spec,
                                           const ModelDevices& devices,
                                           const ModelOptions& requested,
                                           const weights::ProgressCallback& progress) {
  const ModelOptions options = with_defaults(requested, spec);
  if (Status ok = check_options(options, spec, devices.backend.capabilities()); !ok) {
    return ok.error();
  }
  CHECK_EQ(devices.comm.size(), options.position.tp);
  CHECK_EQ(options.position.pp, 1);  // activations between stages are not exchanged yet
  Result<weights::ShardPlan> plan = weights::make_shard_plan(spec, options.position);
  if (!plan) return plan.error();
  auto loaded = weights::load_weights(file, spec, *plan, devices.backend, progress);
  if (!loaded) return loaded.error();
  return std::unique_ptr<Model>(
      new Model({spec, options, std::move(*plan), devices, std::move(*loaded)}));
}

Model::Model(Parts parts)
    : spec_(parts.spec),
      options_(parts.options),
      plan_(std::move(parts.plan)),
      backend_(parts.devices.backend),
      comm_(parts.devices.comm),
      weights_(std::move(parts.weights)),
      numerics_(numerics_class(backend_, spec_, options_.kv_dtype)),
      kv_layout_{.num_layers = plan_.layers.size(),
                 .num_kv_heads = plan_.kv_heads.size(),
                 .head_dim = spec_.head_dim,
                 .block_size = options_.block_size,
                 .dtype = options_.kv_dtype},
      kv_memory_(backend_.allocate(options_.num_blocks * kv_layout_.block_bytes())),
      activations_(make_activations(spec_, plan_, options_.max_tokens, options_.max_logit_rows,
                                    backend_)),
      step_(step_limits(options_, spec_), backend_),
      stream_(backend_.make_stream()),
      host_x_(static_cast<size_t>(options_.max_tokens * spec_.hidden)),
      host_logits_(static_cast<size_t>(options_.max_logit_rows * plan_.vocab.size())) {
  // Logits of several ranks would have to be gathered per row.
  CHECK_EQ(plan_.vocab.size(), spec_.vocab);
  upload_rope_table();
}

void Model::upload_rope_table() {
  const RopeTableData table = make_rope_table(spec_, options_.max_context);
  const auto half_bytes = static_cast<int64_t>(table.cos.size() * sizeof(float));
  rope_memory_ = backend_.allocate(2 * half_bytes);
  float* const cos = rope_memory_.as<float>().data();
  float* const sin = cos + table.cos.size();
  backend_.upload(*stream_, table.cos.data(), cos, half_bytes);
  backend_.upload(*stream_, table.sin.data(), sin, half_bytes);
  stream_->synchronize();
  rope_ = {.cos = cos,
           .sin = sin,
           .num_positions = options_.max_context,
           .rotary_dim = spec_.head_dim};
}

StepOutput Model::run(const StepBatch& batch) {
  step_.plan(batch);
  step_.upload(*stream_);
  const PassParts parts{spec_, plan_,        weights_, backend_,
                        comm_, activations_, rope_,
                        {kv_layout_, kv_memory_.data(), options_.num_blocks, 0}};
  const PassInput input{step_.tokens(static_cast<uint32_t>(plan_.vocab.begin)), step_.batch(),
                        step_.logit_rows(), step_.num_logit_rows()};
  ForwardPass(parts, *stream_, input).run();

  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  backend_.download(*stream_, activations_.x.data, host_x_.data(),
                    step_.num_tokens() * spec_.hidden * kFloat);
  backend_.download(*stream_, activations_.logits.data, host_logits_.data(),
                    step_.num_logit_rows() * spec_.vocab * kFloat);
  stream_->synchronize();

  StepOutput output;
  int64_t row = 0;
  int64_t logit_row = 0;
  for (const StepEntry& entry : batch) {
    output.entries.push_back(finish_entry(entry, row, logit_row));
    const auto count = static_cast<int64_t>(entry.tokens.size());
    row += count;
    if (entry.wants_logits()) {
      logit_row += entry.return_logits == ReturnLogits::kAll ? count : 1;
    }
  }
  return output;
}

EntryOutput Model::finish_entry(const StepEntry& entry, int64_t first_row,
                                int64_t first_logit_row) {
  EntryOutput out;
  const auto hidden = static_cast<size_t>(spec_.hidden);
  const auto vocab = static_cast<size_t>(spec_.vocab);
  const size_t count = entry.tokens.size();
  // Every K and V row enters its own row's residual stream, so a finite stream means finite KV.
  out.finite = all_finite(std::span(host_x_).subspan(static_cast<size_t>(first_row) * hidden,
                                                     count * hidden));
  if (!entry.wants_logits()) return out;
  const size_t num_rows = entry.return_logits == ReturnLogits::kAll ? count : 1;
  const std::span<const float> logits = std::span(host_logits_).subspan(
      static_cast<size_t>(first_logit_row) * vocab, num_rows * vocab);
  if (entry.return_logits != ReturnLogits::kNone) out.logits.assign(logits.begin(), logits.end());
  if (entry.sample && out.finite) {
    const auto position =
        static_cast<uint32_t>(entry.start_position) + static_cast<uint32_t>(count);
    const sampling::SampleRequest request{.params = entry.params,
                                          .choice = entry.choice,
                                          .position = position,
                                          .num_logprobs = entry.num_logprobs,
                                          .digest = entry.digest};
    out.sample = sampling::sample_row(logits.last(vocab), request, sort_scratch_);
  }
  return out;
}

std::span<std::byte> Model::block_bytes(uint32_t block) {
  CHECK_LT(static_cast<int64_t>(block), options_.num_blocks);
  CHECK(kv_memory_.device().kind == tensor::DeviceKind::kCpu);
  const auto size_bytes = static_cast<size_t>(kv_layout_.block_bytes());
  return kv_memory_.as<std::byte>().subspan(block * size_bytes, size_bytes);
}

}  // namespace tandem::forward
