#include "cli/client/http_client.h"

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <utility>

namespace tandem::client {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::asio::ip::tcp;
using boost::beast::error_code;

constexpr size_t kMaxCollectedBytes = size_t{64} << 20;
constexpr std::chrono::milliseconds kCancelCheck{100};
constexpr size_t kPieceBytes = size_t{16} << 10;

// One exchange. Each step starts one asynchronous operation and runs the context until it is
// done: that is what gives a blocking client its timeouts.
class Exchange {
 public:
  Exchange(const Url& url, const HttpRequest& request)
      : url_(url), request_(request), resolver_(context_), stream_(context_) {
    parser_.body_limit(boost::none);
  }

  Result<HttpReply> run(const BodyHandler& on_body) {
    if (Status status = open(); !status.ok()) return status.error();
    if (Status status = send(); !status.ok()) return status.error();
    return receive(on_body);
  }

 private:
  // Runs one step to its end. `start` gets the completion handler.
  template <typename Start>
  error_code step(Duration timeout, Start start) {
    error_code result;
    stream_.expires_after(timeout);
    start([&result](error_code error, auto&&...) { result = error; });
    context_.restart();
    for (;;) {
      context_.run_for(kCancelCheck);
      if (context_.stopped()) return result;
      if (request_.is_cancelled && request_.is_cancelled()) stream_.close();
    }
  }

  Error failed(const char* what, error_code error) const {
    if (error == boost::asio::error::operation_aborted) {
      return Error{ErrorCode::kCancelled, "stopped", ""};
    }
    const bool timed_out = error == beast::error::timeout;
    return Error{timed_out ? ErrorCode::kDeadline : ErrorCode::kUnavailable,
                 url_.text() + ": " + what + ": " +
                     (timed_out ? "no answer in time" : error.message()),
                 ""};
  }

  Status open() {
    error_code error;
    const auto addresses = resolver_.resolve(url_.host, url_.port, error);
    if (error) return failed("can't resolve the host", error);
    error = step(request_.connect_timeout,
                 [&](auto handler) { stream_.async_connect(addresses, handler); });
    if (error) return failed("can't connect", error);
    return {};
  }

  Status send() {
    http::request<http::string_body> message;
    message.method_string(request_.method);
    message.target(request_.target);
    message.version(11);
    message.set(http::field::host, url_.host + ":" + url_.port);
    message.set(http::field::connection, "close");
    if (!request_.body.empty()) {
      message.set(http::field::content_type, "application/json");
      message.body() = request_.body;
    }
    message.prepare_payload();
    const error_code error = step(request_.idle_timeout, [&](auto handler) {
      http::async_write(stream_, message, handler);
    });
    if (error) return failed("can't send the request", error);
    return {};
  }

  Result<HttpReply> receive(const BodyHandler& on_body) {
    error_code error = step(request_.idle_timeout, [&](auto handler) {
      http::async_read_header(stream_, buffer_, parser_, handler);
    });
    if (error) return failed("no reply", error);
    HttpReply reply;
    reply.status = static_cast<int>(parser_.get().result_int());
    const bool forward = on_body != nullptr && reply.status == 200;
    std::array<char, kPieceBytes> piece;
    while (!parser_.is_done()) {
      parser_.get().body().data = piece.data();
      parser_.get().body().size = piece.size();
      error = step(request_.idle_timeout, [&](auto handler) {
        http::async_read_some(stream_, buffer_, parser_, handler);
      });
      if (error && error != http::error::need_buffer) return failed("the reply broke off", error);
      const std::string_view bytes(piece.data(), piece.size() - parser_.get().body().size);
      if (forward) {
        if (!bytes.empty() && !on_body(bytes)) {
          return Error{ErrorCode::kCancelled, "stopped", ""};
        }
        continue;
      }
      if (reply.body.size() + bytes.size() > kMaxCollectedBytes) {
        return Error{ErrorCode::kExhausted, url_.text() + ": reply larger than 64 MiB", ""};
      }
      reply.body.append(bytes);
    }
    return reply;
  }

  const Url& url_;
  const HttpRequest& request_;
  boost::asio::io_context context_;
  tcp::resolver resolver_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  http::response_parser<http::buffer_body> parser_;
};

}  // namespace

std::string Url::text() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return "http://" + (is_ipv6 ? "[" + host + "]" : host) + ":" + port;
}

Result<Url> parse_url(const std::string& text) {
  const Error bad{ErrorCode::kInvalidArgument,
                  "\"" + text + "\" is not an address; write http://127.0.0.1:8000", "url"};
  constexpr std::string_view kScheme = "http://";
  if (!text.starts_with(kScheme)) return bad;
  std::string rest = text.substr(kScheme.size());
  if (rest.ends_with("/")) rest.pop_back();
  const size_t colon = rest.rfind(':');
  if (colon == std::string::npos) return bad;
  Url url{rest.substr(0, colon), rest.substr(colon + 1)};
  if (url.host.starts_with("[") && url.host.ends_with("]")) {
    url.host = url.host.substr(1, url.host.size() - 2);
  }
  const bool digits = !url.port.empty() && url.port.size() <= 5 &&
                      url.port.find_first_not_of("0123456789") == std::string::npos;
  if (url.host.empty() || url.host.find('/') != std::string::npos || !digits) return bad;
  return url;
}

Result<HttpReply> exchange(const Url& url, const HttpRequest& request,
                           const BodyHandler& on_body) {
  return Exchange(url, request).run(on_body);
}

}  // namespace tandem::client
