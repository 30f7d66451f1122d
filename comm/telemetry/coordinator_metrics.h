#pragma once
// Every metric family of the coordinator: what only it can see (latencies at the client's byte,
// delivered tokens, attempts) and gauges of its view of the instances.

#include <array>
#include <map>
#include <string>
#include <vector>

#include "comm/telemetry/metrics.h"

namespace tandem::telemetry {

enum class FinishedReason { kStop, kLength, kAbort, kError, kCount };
// Why a generated token never reached a client.
enum class DiscardReason { kStop, kCancel, kReplay, kFenced, kCount };
// Which leg of a request was replaced.
enum class FailoverKind { kPrefill, kDecode, kCount };
enum class HandoverStage { kQueued, kReserve, kPrefill, kCommit, kCount };
enum class InstanceState { kStarting, kReady, kSuspect, kDraining, kDead, kCount };
enum class KvBlockState { kFree, kCached, kLeased, kCount };
inline constexpr LabelValues<KvBlockState> kKvBlockStateNames = {"free", "cached", "leased"};
enum class HttpRoute {
  kChatCompletions, kCompletions, kModels, kHealth, kReady, kMetrics, kAdmin, kOther, kCount
};
enum class HttpCodeClass { k2xx, k4xx, k5xx, kCount };

// 2xx, 4xx or 5xx; anything else counts as 5xx, since the server never sends it.
HttpCodeClass http_code_class(int status);

// The coordinator's view of one instance, labelled with its configured name.
struct InstanceGauges {
  Gauge running;                       // tandem_instance_requests_running
  Gauge waiting;                       // tandem_instance_requests_waiting
  GaugeBy<InstanceState> state;        // tandem_instance_state: 1 for the current state, else 0
  GaugeBy<KvBlockState> kv_blocks;     // tandem_instance_kv_blocks

  void set_state(InstanceState current);
};

// Made once in main with the instance names of the configuration. Handles are thread-safe; the
// struct itself is read-only after construction.
struct CoordinatorMetrics {
  // Requires: instance names are those of the configuration (a closed set).
  CoordinatorMetrics(MetricsRegistry& registry, const std::vector<std::string>& instances);

  Histogram time_to_first_token;       // vllm:time_to_first_token_seconds
  Histogram inter_token_latency;       // vllm:inter_token_latency_seconds
  Histogram e2e_request_latency;       // vllm:e2e_request_latency_seconds
  Gauge requests_running;              // tandem_requests_running: sent to an instance, not ended
  Gauge requests_waiting;              // vllm:num_requests_waiting: in the coordinator's queue
  CounterBy<FinishedReason> request_success;      // vllm:request_success_total
  Counter tokens_delivered;                       // tandem_tokens_delivered_total
  CounterBy<DiscardReason> tokens_discarded;      // tandem_tokens_discarded_total
  Counter attempts;                               // tandem_attempts_total
  CounterBy<FailoverKind> failovers;              // tandem_failovers_total
  HistogramBy<HandoverStage> handover;            // tandem_handover_stage_seconds
  Counter late_messages;                          // tandem_late_messages_total
  Gauge http_connections;                         // tandem_http_connections
  Counter http_stalled_clients;                   // tandem_http_stalled_clients_total
  std::map<std::string, InstanceGauges> instances;

  // Counts one answered HTTP request. Thread-safe.
  void count_http(HttpRoute route, int status);

 private:
  std::array<CounterBy<HttpCodeClass>, static_cast<size_t>(HttpRoute::kCount)> http_requests_;
};

}  // namespace tandem::telemetry
