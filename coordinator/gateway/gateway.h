#pragma once
// Gateway: the OpenAI routes and the operator's routes of the coordinator.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "comm/http/server.h"
#include "comm/runtime/event_loop.h"
#include "comm/runtime/rng.h"
#include "comm/telemetry/coordinator_metrics.h"
#include "comm/telemetry/log.h"
#include "comm/telemetry/metrics.h"
#include "coordinator/gateway/call.h"
#include "coordinator/gateway/prompt.h"
#include "coordinator/gateway/reply.h"
#include "coordinator/request/service.h"

namespace tandem::gateway {

// What the gateway works with. Everything outlives it.
struct GatewayDeps {
  EventLoop& loop;
  request::Service& service;
  ModelText model;
  telemetry::MetricsRegistry& registry;
  telemetry::CoordinatorMetrics& metrics;
  telemetry::Logger& log;
  Rng& rng;                        // ids, and seeds of requests that bring none
};

struct GatewayOptions {
  std::string model_alias;
  std::function<int64_t()> unix_time_s;        // default: the machine's wall clock
  std::function<void()> before_scrape;         // sets gauges just before /metrics; may be empty
  size_t max_pending_bytes = 64u << 10;        // unsent bytes per stream before text is held back
};

// Owned by main; everything on the loop thread. Destroy the HttpServer first, then the gateway
// (which cancels what runs), then the service.
class Gateway {
 public:
  Gateway(GatewayDeps deps, GatewayOptions options);
  ~Gateway();
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  // The handler of the listener. Every request gets exactly one answer.
  void handle(const http::HttpRequest& request, http::ResponseWriterPtr writer);

  size_t num_calls() const { return calls_.size(); }

 private:
  void complete(Endpoint endpoint, const http::HttpRequest& request, Reply reply);
  void start_call(const ApiRequest& options, request::Request request, Reply reply);
  void models(Reply reply);
  void model(std::string_view id, Reply reply);
  void health(Reply reply);
  void ready(Reply reply);
  void metrics(Reply reply);
  void drain(Reply reply);
  std::string random_id(const char* prefix);
  std::string model_json() const;
  int64_t unix_time_s() const;

  GatewayDeps deps_;
  const GatewayOptions options_;
  const CallContext context_;
  const size_t max_bytes_per_token_;
  const int64_t started_unix_s_;
  bool ever_ready_ = false;        // since then, "no path" means broken, not starting
  // shared_ptr: see Call. Keyed by address; never iterated for a decision.
  std::unordered_map<const Call*, std::shared_ptr<Call>> calls_;
};

}  // namespace tandem::gateway
