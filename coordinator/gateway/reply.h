#pragma once
// One HTTP exchange on its way back: adds the headers every answer has and counts it.

#include <string>

#include "comm/http/server.h"
#include "comm/telemetry/coordinator_metrics.h"

namespace tandem::gateway {

// Copyable handle; loop thread only. Exactly one of send() and begin_stream() is called.
class Reply {
 public:
  // Refers to metrics, which outlive it.
  Reply(http::ResponseWriterPtr writer, telemetry::HttpRoute route, std::string request_id,
        telemetry::CoordinatorMetrics& metrics)
      : writer_(std::move(writer)),
        route_(route),
        request_id_(std::move(request_id)),
        metrics_(&metrics) {}

  void send(http::HttpResponse response);
  // A 200 event stream.
  void begin_stream();

  http::ResponseWriter& writer() { return *writer_; }
  const std::string& request_id() const { return request_id_; }

 private:
  http::ResponseWriterPtr writer_;
  telemetry::HttpRoute route_;
  std::string request_id_;
  telemetry::CoordinatorMetrics* metrics_;
};

// The client's X-Request-Id made safe to echo and log: visible ASCII without quotes, at most 128
// characters; what does not fit is left out. Empty when nothing remains.
std::string sanitised_request_id(std::string_view text);

}  // namespace tandem::gateway
