#include "coordinator/gateway/api_error.h"

#include "coordinator/gateway/json_writer.h"

namespace tandem::gateway {
namespace {

constexpr int kRetryAfterS = 1;

ApiError server_error(int status, const Error& error) {
  return {.status = status,
          .message = error.message,
          .type = "server_error",
          .param = {},
          .code = error_code_name(error.code),
          .retry_after_s = status == 503 ? kRetryAfterS : 0};
}

void write_nullable(JsonWriter& json, const char* key, const std::string& text) {
  json.key(key);
  if (text.empty()) {
    json.null();
  } else {
    json.string(text);
  }
}

}  // namespace

ApiError request_error(const Error& error) {
  ApiError out{.status = 400,
               .message = error.message,
               .type = "invalid_request_error",
               .param = error.field,
               .code = "invalid_value",
               .retry_after_s = 0};
  if (error.code == ErrorCode::kUnsupported) out.code = "unsupported_value";
  if (error.code == ErrorCode::kExhausted) out.code = "context_length_exceeded";
  if (error.code == ErrorCode::kNotFound) {
    out.status = 404;
    out.code = "model_not_found";
  }
  return out;
}

ApiError service_error(const Error& error, bool draining) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
      return request_error(error);
    case ErrorCode::kExhausted: {
      if (draining) return server_error(503, error);
      ApiError out = server_error(429, error);
      out.type = "rate_limit_error";
      out.retry_after_s = kRetryAfterS;
      return out;
    }
    case ErrorCode::kUnavailable:
    case ErrorCode::kDeadline:
    case ErrorCode::kCancelled:
      return server_error(503, error);
    case ErrorCode::kCorrupt:
    case ErrorCode::kFenced:
    case ErrorCode::kIo:
      return server_error(502, error);
    case ErrorCode::kNotFound:
    case ErrorCode::kInternal:
      break;
  }
  return server_error(500, error);
}

std::string error_json(const ApiError& error) {
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.key("message").string(error.message);
  json.key("type").string(error.type);
  write_nullable(json, "param", error.param);
  write_nullable(json, "code", error.code);
  json.end_object().end_object();
  return std::move(json).take();
}

http::HttpResponse error_response(const ApiError& error) {
  http::HttpResponse response =
      http::make_response(error.status, "application/json", error_json(error));
  if (error.retry_after_s > 0) {
    response.headers.push_back({"Retry-After", std::to_string(error.retry_after_s)});
  }
  return response;
}

}  // namespace tandem::gateway
