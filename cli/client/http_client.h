#pragma once
// A small blocking HTTP/1.1 client for the command line: one request per connection, every wait
// bounded. Beast stays inside http_client.cc.

#include <functional>
#include <string>
#include <string_view>

#include "comm/runtime/clock.h"
#include "comm/runtime/result.h"

namespace tandem::client {

// http://HOST:PORT, without a path.
struct Url {
  std::string host;
  std::string port;
  std::string text() const;  // "http://127.0.0.1:8000"
};
// kInvalidArgument with the accepted form. A trailing '/' is dropped.
Result<Url> parse_url(const std::string& text);

struct HttpRequest {
  std::string method = "GET";
  std::string target = "/";
  std::string body;                                 // sent as application/json when not empty
  Duration connect_timeout = std::chrono::seconds(5);
  Duration idle_timeout = std::chrono::seconds(600);  // longest silence while waiting for bytes
  std::function<bool()> is_cancelled;  // asked every 100 ms while waiting; may be empty
};

struct HttpReply {
  int status = 0;
  std::string body;  // empty when it went to `on_body`
};

// Called with each piece of a 200 reply's body as it arrives; false ends the exchange.
using BodyHandler = std::function<bool(std::string_view piece)>;

// kUnavailable: no connection, or it broke; kDeadline: a timeout; kCancelled: on_body or is_cancelled
// said stop;
// kExhausted: a collected body larger than 64 MiB. Any HTTP status is a success of this call.
Result<HttpReply> exchange(const Url& url, const HttpRequest& request,
                           const BodyHandler& on_body = nullptr);

}  // namespace tandem::client
