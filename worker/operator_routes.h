#pragma once
// /metrics and /health of one instance leader.

#include <functional>
#include <string>

#include "comm/http/message.h"
#include "comm/telemetry/metrics.h"

namespace tandem::worker {

// What the routes ask of the worker; called on the loop thread.
struct OperatorView {
  const telemetry::MetricsRegistry& registry;
  std::function<void()> refresh_gauges;
  std::function<bool()> joined;
  std::function<bool()> stalled;  // the running step is older than its limit
};

// GET /metrics, GET /health (503 when stalled), 404 otherwise.
http::HttpResponse answer(const OperatorView& view, const http::HttpRequest& request);

}  // namespace tandem::worker
