#include "worker/worker_options.h"

#include <algorithm>
#include <utility>

#include "comm/runtime/result.h"
#include "comm/wire/limits.h"
#include "configs/schema/values.h"
#include "model/spec/formulas.h"
#include "worker/scheduler/policy.h"

namespace tandem::worker {
namespace {

std::string pool_key(const config::Config& config, const std::string& instance,
                     const std::string& key) {
  const auto name = config::find_instance(config, instance);
  CHECK(name.ok());
  return std::string("pools.") + config::role_name(name->role) + "." + key;
}

}  // namespace

forward::ModelOptions model_options(const config::Config& config, const std::string& instance,
                                    const spec::ModelSpec& spec) {
  const config::PoolConfig& pool = config::pool_of(config, instance);
  const bool is_f32 = config.kv.dtype == config::KvDtype::kF32;
  const auto token_bytes = static_cast<int64_t>(
      spec::kv_bytes_per_token(spec, is_f32 ? spec::KvDtype::kF32 : spec::KvDtype::kBf16));
  const int64_t block_bytes = token_bytes * config.kv.block_size;
  if (static_cast<uint64_t>(block_bytes) > wire::kMaxBlockBytes) {
    throw StartupError("kv.block_size: a block of " + std::to_string(config.kv.block_size) +
                       " tokens of this model has " + std::to_string(block_bytes) +
                       " bytes, more than the " + std::to_string(wire::kMaxBlockBytes) +
                       " a link carries; write a smaller kv.block_size");
  }
  const Result<int32_t> context = spec::context_length(spec, config.model.max_context);
  if (!context) throw StartupError(context.error().message);
  const int64_t max_context = *context;
  const int64_t min_tokens = std::min(kMinPoolTokens, max_context);
  const int64_t min_blocks = (min_tokens + config.kv.block_size - 1) / config.kv.block_size;
  const int64_t num_blocks = pool.kv_memory_bytes / block_bytes;
  if (num_blocks < min_blocks) {
    constexpr int64_t kKiB = 1024;
    const int64_t min_kib = (min_blocks * block_bytes + kKiB - 1) / kKiB;
    throw StartupError(pool_key(config, instance, "kv_memory") + ": " +
                       config::format_size(pool.kv_memory_bytes) + " holds " +
                       std::to_string(num_blocks) + " KV blocks of " +
                       std::to_string(block_bytes) + " bytes; write at least " +
                       config::format_size(min_kib * kKiB) + ", room for " +
                       std::to_string(min_tokens) + " tokens");
  }
  const int64_t entries =
      pool.max_sequences + std::min<int64_t>(kMaxPrefillSequences, pool.step_token_budget);
  return {.num_blocks = num_blocks,
          .block_size = config.kv.block_size,
          .kv_dtype = is_f32 ? tensor::DType::kF32 : tensor::DType::kBF16,
          .max_tokens = pool.step_token_budget,
          .max_sequences = entries,
          .max_logit_rows = entries,
          .max_context = max_context};
}

std::vector<uint32_t> eos_ids(const format::GgufFile& file) {
  constexpr const char* kKey = "tokenizer.ggml.eos_token_id";
  if (file.find(kKey) == nullptr) return {};
  const Result<uint64_t> id = file.uint_at(kKey);
  if (!id.ok()) throw StartupError(id.error().message);
  return {static_cast<uint32_t>(*id)};
}

wire::Descriptor make_descriptor(const forward::Model& model, const std::string& model_digest,
                                 const config::Config& config, const std::string& instance) {
  const config::PoolConfig& pool = config::pool_of(config, instance);
  const ops::PagedKvLayout& layout = model.layout();
  wire::Descriptor descriptor;
  descriptor.set_model_digest(model_digest);
  descriptor.set_numerics_class(model.numerics().hash);
  wire::KvLayout& kv = *descriptor.mutable_kv();
  kv.set_dtype(config::kv_dtype_name(config.kv.dtype));
  kv.set_block_size(static_cast<uint32_t>(layout.block_size));
  kv.set_num_layers(static_cast<uint32_t>(layout.num_layers));
  kv.set_num_kv_heads(static_cast<uint32_t>(layout.num_kv_heads));
  kv.set_head_dim(static_cast<uint32_t>(layout.head_dim));
  kv.set_tile_format(ops::PagedKvLayout::kRowMajorTile);
  kv.set_block_bytes(static_cast<uint64_t>(layout.block_bytes()));
  descriptor.set_tp(static_cast<uint32_t>(pool.tp));
  descriptor.set_pp(static_cast<uint32_t>(pool.pp));
  descriptor.set_num_blocks(static_cast<uint32_t>(model.options().num_blocks));
  descriptor.set_max_sequences(static_cast<uint32_t>(pool.max_sequences));
  descriptor.set_max_context(static_cast<uint32_t>(model.options().max_context));
  descriptor.set_vocab_size(static_cast<uint32_t>(model.spec().vocab));
  return descriptor;
}

engine::Options engine_options(const config::Config& config, const std::string& instance,
                               wire::Descriptor descriptor) {
  const config::PoolConfig& pool = config::pool_of(config, instance);
  engine::Options options;
  options.instance = instance;
  options.role = config::find_instance(config, instance)->role;
  options.descriptor = std::move(descriptor);
  options.deadlines = config.deadlines;
  options.scheduler = {.token_budget = static_cast<uint32_t>(pool.step_token_budget),
                       .prefill_chunk = static_cast<uint32_t>(pool.prefill_chunk),
                       .max_sequences = static_cast<uint32_t>(pool.max_sequences),
                       .max_prefill_sequences = static_cast<uint32_t>(
                           std::min<int64_t>(kMaxPrefillSequences, pool.step_token_budget))};
  options.plan = scheduler::policies().front().plan;
  options.prefix_cache = config.kv.prefix_cache;
  return options;
}

kvlink::TcpLinkOptions link_options(const config::Config& config, const std::string& instance,
                                    const wire::Descriptor& descriptor, Incarnation incarnation) {
  const config::TestingConfig& testing = config.testing;
  kvlink::TcpLinkOptions options;
  options.instance = instance;
  options.incarnation = incarnation;
  options.max_block_bytes = descriptor.kv().block_bytes();
  options.open_deadline = config.deadlines.link_open;
  options.progress_timeout = config.deadlines.fenced;
  options.testing.flip_bit_in_part = static_cast<uint64_t>(testing.flip_received_block);
  options.testing.verify_blocks = testing.verify_blocks;
  options.testing.slow_link_bytes_per_s = static_cast<uint64_t>(testing.slow_link_bytes_per_s);
  return options;
}

}  // namespace tandem::worker
