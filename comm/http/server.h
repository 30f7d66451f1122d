#pragma once
// HttpServer: the one HTTP/1.1 listener, used by the gateway and by workers (/metrics, /health).

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "comm/http/asio_loop.h"
#include "comm/http/message.h"
#include "comm/runtime/clock.h"
#include "comm/runtime/result.h"

namespace tandem::http {

struct HttpLimits {
  size_t max_header_bytes = 64u << 10;    // request line and headers; more ⇒ 431
  size_t max_headers = 128;               // more ⇒ 431
  size_t max_body_bytes = 16u << 20;      // more ⇒ 413
  size_t max_connections = 1024;          // more ⇒ 503 at once, then closed
  Duration header_timeout = std::chrono::seconds(10);   // from the first byte; ⇒ 408
  Duration body_timeout = std::chrono::seconds(30);     // from the end of the headers; ⇒ 408
  Duration idle_timeout = std::chrono::seconds(75);     // between requests; ⇒ closed
  // A client that takes no byte for this long while bytes wait for it is cut off.
  Duration client_stall = std::chrono::seconds(30);
};

// Answers one request: either respond(), or begin_stream() write()* end(). Belongs to the loop
// thread. A client that ends its own half of the connection counts as gone. Stays valid, and does
// nothing, after the connection died: calls on a dead writer are harmless (on_closed still needs
// the loop). Dropping the last reference before the response is whole cuts the connection (a
// forgotten request never hangs a client).
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;

  // Sends a whole response. Requires: nothing was sent through this writer before.
  virtual void respond(HttpResponse response) = 0;

  // Starts a streamed response (chunked for HTTP/1.1). Requires: nothing was sent before.
  virtual void begin_stream(int status, Headers headers) = 0;
  // Queues bytes of the body, and hands them to the socket at once when nothing waits before them.
  // Never blocks or refuses: the caller bounds what it queues by pending_bytes().
  virtual void write(std::string bytes) = 0;
  // Ends the stream; the connection may carry the next request.
  virtual void end() = 0;
  // Cuts the connection, so that the client sees an unfinished response.
  virtual void abort() = 0;

  // Bytes queued and not yet taken by the socket.
  virtual size_t pending_bytes() const = 0;
  // Called, never inside write(), every time the socket has taken all that a write() had left
  // pending. Replaces an earlier callback.
  virtual void on_drained(std::function<void()> callback) = 0;
  // Called at most once, when the connection ends before the whole response was taken by the
  // socket (the client went away or stalled, abort(), the server stops); at once, posted, if that
  // has happened already. Never called for a response that was sent whole. Callbacks are dropped
  // when the response is over.
  virtual void on_closed(std::function<void()> callback) = 0;
  virtual bool closed() const = 0;
};

// shared_ptr: held by the connection and by whoever produces the response; either may end first.
using ResponseWriterPtr = std::shared_ptr<ResponseWriter>;
using HttpHandler = std::function<void(const HttpRequest&, ResponseWriterPtr)>;

struct HttpStats {
  uint64_t accepted = 0;      // connections
  uint64_t refused = 0;       // over max_connections
  uint64_t requests = 0;      // whole requests given to the handler
  uint64_t bad_requests = 0;  // answered by the listener itself with 4xx
  uint64_t stalled = 0;       // cut off by client_stall
  size_t open = 0;            // connections now
};

struct HttpServerOptions {
  std::string address = "127.0.0.1";   // numeric IPv4 or IPv6, or "localhost"
  uint16_t port = 0;                   // 0 = any free port
  HttpLimits limits = {};
};

// Splits "127.0.0.1:8000" or "[::1]:8000". kInvalidArgument otherwise.
Result<HttpServerOptions> parse_http_address(const std::string& text);

// Owned by main, on the loop's thread (constructed before run() or on it; destroyed on it, outside
// of the handler, or after run() returned). The handler runs on the loop thread and must not block.
// Requests of one connection are handled one after the other; a slow client delays only itself.
class HttpServer {
 public:
  // Binds and listens. Throws StartupError naming the address and what to do about it.
  HttpServer(AsioLoop& loop, HttpServerOptions options, HttpHandler handler);
  ~HttpServer();   // closes every connection
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  std::string url() const;   // "http://127.0.0.1:8000"
  HttpStats stats() const;

  // Stops accepting; open connections finish their current response and then close.
  void drain();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;   // shared with pending socket operations
};

// An HttpServer on a loop and a thread of its own, for processes whose loop isn't Asio. The handler
// runs on that thread.
class HttpThread {
 public:
  HttpThread(HttpServerOptions options, HttpHandler handler);   // as HttpServer
  ~HttpThread();                                                // stops and joins

  uint16_t port() const { return port_; }
  const std::string& url() const { return url_; }

 private:
  AsioLoop loop_;
  std::unique_ptr<HttpServer> server_;
  uint16_t port_ = 0;
  std::string url_;
  std::thread thread_;
};

}  // namespace tandem::http
