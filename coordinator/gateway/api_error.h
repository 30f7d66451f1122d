#pragma once
// The one shape of an error towards a client: {"error":{"message","type","param","code"}}.

#include <string>

#include "comm/http/message.h"
#include "comm/runtime/result.h"

namespace tandem::gateway {

struct ApiError {
  int status = 500;
  std::string message;
  std::string type;        // "invalid_request_error", "rate_limit_error", "server_error", …
  std::string param;       // empty: null
  std::string code;        // empty: null
  int retry_after_s = 0;   // 0: no Retry-After header
};

// What is wrong with the request itself, before it was submitted: 400, or 404 for kNotFound.
ApiError request_error(const Error& error);

// What submit() or the ending of a request reports. `draining` tells 503 from 429.
ApiError service_error(const Error& error, bool draining);

// The `{"error":…}` object.
std::string error_json(const ApiError& error);

http::HttpResponse error_response(const ApiError& error);

}  // namespace tandem::gateway
