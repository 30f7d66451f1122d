#pragma once
// Plain HTTP/1.1 messages as the handlers of the listener see them.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::http {

struct Header {
  std::string name;
  std::string value;
};
using Headers = std::vector<Header>;

struct HttpRequest {
  std::string method;   // "GET", "POST", …, as sent
  std::string path;     // the target up to '?', not decoded
  std::string query;    // what follows '?', not decoded; may be empty
  Headers headers;      // in the order they came, at most HttpLimits::max_headers
  std::string body;     // at most HttpLimits::max_body_bytes, chunked coding removed
  std::string client;   // "address:port", for logs

  // The first header of that name (compared without case), or an empty view.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  Headers headers;      // without Content-Length, Connection, Date: the listener adds them
  std::string body;
};

// "Not Found" for 404; "Unknown" for a status without a name here.
const char* status_text(int status);

// A response with a Content-Type header and a body.
HttpResponse make_response(int status, std::string content_type, std::string body);
// An OpenAI-style JSON error: {"error":{"message","type","param":null,"code":null}}.
HttpResponse make_error(int status, std::string_view message);
// 405 with an Allow header ("GET, HEAD").
HttpResponse make_method_not_allowed(const std::string& allow);

}  // namespace tandem::http
