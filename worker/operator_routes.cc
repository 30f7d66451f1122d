#include "worker/operator_routes.h"

namespace tandem::worker {
namespace {

http::HttpResponse health(const OperatorView& view) {
  constexpr const char* kJson = "application/json";
  if (view.stalled()) {
    return http::make_response(503, kJson, "{\"status\":\"stalled\",\"why\":\"the running step is "
                                           "older than deadlines.stalled_min allows\"}");
  }
  return http::make_response(
      200, kJson, view.joined() ? "{\"status\":\"ok\"}" : "{\"status\":\"joining\"}");
}

}  // namespace

http::HttpResponse answer(const OperatorView& view, const http::HttpRequest& request) {
  const bool is_metrics = request.path == "/metrics";
  if (!is_metrics && request.path != "/health") {
    return http::make_error(404, "this instance serves /metrics and /health");
  }
  if (request.method != "GET" && request.method != "HEAD") {
    return http::make_method_not_allowed("GET, HEAD");
  }
  if (!is_metrics) return health(view);
  view.refresh_gauges();
  return http::make_response(200, telemetry::kMetricsContentType, view.registry.text());
}

}  // namespace tandem::worker
