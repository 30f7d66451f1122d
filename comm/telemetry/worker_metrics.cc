#include "comm/telemetry/worker_metrics.h"

namespace tandem::telemetry {
namespace {

constexpr LabelValues<PromptSource> kSources = {"local_compute", "local_cache_hit",
                                                "external_kv_transfer"};
constexpr LabelValues<TransferDirection> kDirections = {"sent", "received"};
constexpr LabelValues<RecomputeReason> kRecomputeReasons = {"checksum", "missing", "sender_lost"};

}  // namespace

WorkerMetrics::WorkerMetrics(MetricsRegistry& registry) {
  requests_running = registry.gauge("vllm:num_requests_running",
                                    "Sequences in this instance's running batch.");
  requests_waiting = registry.gauge("vllm:num_requests_waiting",
                                    "Sequences waiting inside this instance.");
  kv_cache_usage = registry.gauge("vllm:kv_cache_usage_perc",
                                  "Leased share of the KV blocks, 0 to 1.");
  prompt_tokens = registry.counter("vllm:prompt_tokens_total",
                                   "Prompt tokens of sequences admitted here.");
  generation_tokens = registry.counter("vllm:generation_tokens_total",
                                       "Tokens sampled by this instance.");
  prompt_tokens_by_source = registry.counter_by<PromptSource>(
      "vllm:prompt_tokens_by_source_total",
      "Prompt tokens by where their KV came from: computed, found in the prefix cache, received.",
      "source", kSources);
  prefix_cache_queries = registry.counter("vllm:prefix_cache_queries_total",
                                          "Prompt tokens looked up in the prefix cache.");
  prefix_cache_hits = registry.counter("vllm:prefix_cache_hits_total",
                                       "Prompt tokens found in the prefix cache.");
  tokens_generated = registry.counter("tandem_tokens_generated_total",
                                      "Tokens sampled by this instance, delivered or not.");
  kv_transfer_bytes = registry.counter_by<TransferDirection>(
      "tandem_kv_transfer_bytes_total", "KV payload bytes that crossed a link.", "direction",
      kDirections);
  kv_transfer_seconds =
      registry.histogram("tandem_kv_transfer_seconds",
                         "From the first part received to the last part verified.",
                         fine_latency_buckets());
  kv_transfer_hidden_share =
      registry.histogram("tandem_kv_transfer_hidden_share",
                         "Share of a transfer that overlapped with prefill, 0 to 1.",
                         share_buckets());
  kv_blocks_recomputed = registry.counter_by<RecomputeReason>(
      "tandem_kv_blocks_recomputed_total", "Granted blocks computed here instead of received.",
      "reason", kRecomputeReasons);
  kv_blocks = registry.gauge_by<KvBlockState>("tandem_kv_blocks", "KV blocks by state.", "state",
                                              kKvBlockStateNames);
  late_messages = registry.counter("tandem_late_messages_total",
                                   "Messages and frames dropped because their sender, grant or "
                                   "epoch was fenced or unknown.");
  steps = registry.counter("tandem_steps_total", "Step plans run.");
  step_seconds = registry.histogram("tandem_step_seconds", "Duration of a step plan.",
                                    fine_latency_buckets());
  step_age = registry.gauge("tandem_step_age_seconds",
                            "Age of the running step plan; 0 while idle.");
}

}  // namespace tandem::telemetry
