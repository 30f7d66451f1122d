#include "comm/telemetry/coordinator_metrics.h"

namespace tandem::telemetry {
namespace {

constexpr LabelValues<FinishedReason> kFinishedReasons = {"stop", "length", "abort", "error"};
constexpr LabelValues<DiscardReason> kDiscardReasons = {"stop", "cancel", "replay", "fenced"};
constexpr LabelValues<FailoverKind> kFailoverKinds = {"prefill", "decode"};
constexpr LabelValues<HandoverStage> kHandoverStages = {"queued", "reserve", "prefill", "commit"};
constexpr LabelValues<InstanceState> kInstanceStates = {"starting", "ready", "suspect", "draining",
                                                        "dead"};
constexpr LabelValues<HttpRoute> kRoutes = {"chat_completions", "completions", "models", "health",
                                            "ready",            "metrics",     "admin",  "other"};
constexpr LabelValues<HttpCodeClass> kCodeClasses = {"2xx", "4xx", "5xx"};

InstanceGauges make_instance(MetricsRegistry& registry, const std::string& name) {
  const Labels labels = {{"instance", name}};
  InstanceGauges gauges;
  gauges.running = registry.gauge("tandem_instance_requests_running",
                                  "Sequences running in an instance, as last reported.", labels);
  gauges.waiting = registry.gauge("tandem_instance_requests_waiting",
                                  "Sequences waiting inside an instance, as last reported.",
                                  labels);
  gauges.state = registry.gauge_by<InstanceState>(
      "tandem_instance_state", "1 for the state the coordinator sees an instance in, else 0.",
      "state", kInstanceStates, labels);
  gauges.kv_blocks = registry.gauge_by<KvBlockState>(
      "tandem_instance_kv_blocks", "KV blocks of an instance by state, as last reported.", "state",
      kKvBlockStateNames, labels);
  return gauges;
}

}  // namespace

HttpCodeClass http_code_class(int status) {
  if (status >= 200 && status < 300) return HttpCodeClass::k2xx;
  if (status >= 400 && status < 500) return HttpCodeClass::k4xx;
  return HttpCodeClass::k5xx;
}

void InstanceGauges::set_state(InstanceState current) {
  for (size_t i = 0; i < GaugeBy<InstanceState>::kSize; ++i) {
    const auto at = static_cast<InstanceState>(i);
    state[at].set(at == current ? 1 : 0);
  }
}

CoordinatorMetrics::CoordinatorMetrics(MetricsRegistry& registry,
                                       const std::vector<std::string>& instance_names) {
  time_to_first_token = registry.histogram(
      "vllm:time_to_first_token_seconds",
      "From the request's arrival to its first token handed to the client.", latency_buckets());
  inter_token_latency =
      registry.histogram("vllm:inter_token_latency_seconds",
                         "Between two tokens handed to the client.", fine_latency_buckets());
  e2e_request_latency = registry.histogram("vllm:e2e_request_latency_seconds",
                                           "From a request's arrival to its end.",
                                           latency_buckets());
  requests_running = registry.gauge("tandem_requests_running",
                                    "Requests given to an instance and not ended yet.");
  requests_waiting = registry.gauge("vllm:num_requests_waiting",
                                    "Requests in the coordinator's queue.");
  request_success = registry.counter_by<FinishedReason>(
      "vllm:request_success_total", "Ended requests by the reason of their end.",
      "finished_reason", kFinishedReasons);
  tokens_delivered = registry.counter("tandem_tokens_delivered_total",
                                      "Generated tokens that count as usage of a request.");
  tokens_discarded = registry.counter_by<DiscardReason>(
      "tandem_tokens_discarded_total", "Generated tokens that no client received, by cause.",
      "reason", kDiscardReasons);
  attempts = registry.counter("tandem_attempts_total",
                              "Attempts started: one per request, plus one per failover.");
  failovers = registry.counter_by<FailoverKind>(
      "tandem_failovers_total", "Requests whose prefill or decode side was replaced.", "kind",
      kFailoverKinds);
  for (size_t i = 0; i < kHandoverStages.size(); ++i) {
    handover[static_cast<HandoverStage>(i)] = registry.histogram(
        "tandem_handover_stage_seconds", "Time a request spent in each stage of the hand-over.",
        latency_buckets(), {{"stage", kHandoverStages[i]}});
  }
  late_messages = registry.counter("tandem_late_messages_total",
                                   "Messages dropped because their sender, attempt or epoch was "
                                   "fenced.");
  http_connections = registry.gauge("tandem_http_connections", "Open HTTP connections.");
  http_stalled_clients = registry.counter("tandem_http_stalled_clients_total",
                                          "Connections cut off because the client stopped "
                                          "reading.");
  for (size_t i = 0; i < kRoutes.size(); ++i) {
    http_requests_[i] = registry.counter_by<HttpCodeClass>(
        "tandem_http_requests_total", "Answered HTTP requests.", "code", kCodeClasses,
        {{"route", kRoutes[i]}});
  }
  for (const std::string& name : instance_names) {
    instances.emplace(name, make_instance(registry, name));
  }
}

void CoordinatorMetrics::count_http(HttpRoute route, int status) {
  CHECK(route < HttpRoute::kCount);
  http_requests_[static_cast<size_t>(route)][http_code_class(status)].add();
}

}  // namespace tandem::telemetry
