#pragma once
// Every metric family of a worker's leader: what happened in its instance.

#include "comm/telemetry/coordinator_metrics.h"
#include "comm/telemetry/metrics.h"

namespace tandem::telemetry {

// Where the KV of a prompt token came from.
enum class PromptSource { kLocalCompute, kLocalCacheHit, kExternalKvTransfer, kCount };
enum class TransferDirection { kSent, kReceived, kCount };
// Why a block that should have been received was computed here instead.
enum class RecomputeReason { kChecksum, kMissing, kSenderLost, kCount };

// Made once in main. Handles are thread-safe; the struct itself is read-only after construction.
struct WorkerMetrics {
  explicit WorkerMetrics(MetricsRegistry& registry);

  Gauge requests_running;              // vllm:num_requests_running
  Gauge requests_waiting;              // vllm:num_requests_waiting
  Gauge kv_cache_usage;                // vllm:kv_cache_usage_perc: leased / total, 0 to 1
  Counter prompt_tokens;               // vllm:prompt_tokens_total
  Counter generation_tokens;           // vllm:generation_tokens_total
  CounterBy<PromptSource> prompt_tokens_by_source;   // vllm:prompt_tokens_by_source_total
  Counter prefix_cache_queries;        // vllm:prefix_cache_queries_total, in tokens
  Counter prefix_cache_hits;           // vllm:prefix_cache_hits_total, in tokens
  Counter tokens_generated;            // tandem_tokens_generated_total
  CounterBy<TransferDirection> kv_transfer_bytes;    // tandem_kv_transfer_bytes_total
  Histogram kv_transfer_seconds;       // tandem_kv_transfer_seconds
  Histogram kv_transfer_hidden_share;  // tandem_kv_transfer_hidden_share, 0 to 1
  CounterBy<RecomputeReason> kv_blocks_recomputed;   // tandem_kv_blocks_recomputed_total
  GaugeBy<KvBlockState> kv_blocks;     // tandem_kv_blocks
  Counter late_messages;               // tandem_late_messages_total
  Counter steps;                       // tandem_steps_total
  Histogram step_seconds;              // tandem_step_seconds
  Gauge step_age;                      // tandem_step_age_seconds: set it just before a scrape
};

}  // namespace tandem::telemetry
