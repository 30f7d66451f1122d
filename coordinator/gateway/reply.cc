#include "coordinator/gateway/reply.h"

#include <utility>

namespace tandem::gateway {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;

}  // namespace

void Reply::send(http::HttpResponse response) {
  metrics_->count_http(route_, response.status);
  response.headers.push_back({"X-Request-Id", request_id_});
  writer_->respond(std::move(response));
}

void Reply::begin_stream() {
  metrics_->count_http(route_, 200);
  writer_->begin_stream(200, {{"Content-Type", "text/event-stream; charset=utf-8"},
                              {"Cache-Control", "no-cache"},
                              {"X-Accel-Buffering", "no"},  // proxies must pass events on at once
                              {"X-Request-Id", request_id_}});
}

std::string sanitised_request_id(std::string_view text) {
  std::string id;
  for (const char c : text) {
    if (id.size() == kMaxRequestIdBytes) break;
    if (c > ' ' && c < 0x7f && c != '"' && c != '\'' && c != '\\' && c != '<' && c != '>') {
      id += c;
    }
  }
  return id;
}

}  // namespace tandem::gateway
