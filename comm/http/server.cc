#include "comm/http/server.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <charconv>
#include <map>
#include <utility>

#include "comm/http/asio_loop_impl.h"
#include "comm/http/connection.h"

namespace tandem::http {
namespace {
namespace asio = boost::asio;
using asio::ip::tcp;
using namespace std::chrono_literals;

// Connections over the limit that may be told so at the same time; more are just closed.
constexpr size_t kMaxTurnedAway = 64;

StartupError bind_error(const std::string& where, const boost::system::error_code& error) {
  std::string advice = error.message();
  if (error == asio::error::address_in_use) {
    advice = "address already in use; choose another port, or 0 for any free one";
  } else if (error == asio::error::access_denied) {
    advice = "not permitted; choose a port above 1023";
  } else if (error.value() == EADDRNOTAVAIL) {
    advice = "no such address on this machine; use one of its own";
  }
  return StartupError("can't serve HTTP on " + where + ": " + advice);
}

}  // namespace

Result<HttpServerOptions> parse_http_address(const std::string& text) {
  const Error bad{ErrorCode::kInvalidArgument,
                  "'" + text + "' is not ADDRESS:PORT, as in 127.0.0.1:8000 or [::1]:8000", {}};
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad;
  HttpServerOptions options;
  options.address = text.substr(0, colon);
  if (options.address.front() == '[' && options.address.back() == ']') {
    options.address = options.address.substr(1, options.address.size() - 2);
  } else if (options.address.find(':') != std::string::npos) {
    return bad;
  }
  const char* first = text.data() + colon + 1;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, options.port);
  if (first == last || end != last || error != std::errc()) return bad;
  return options;
}

struct HttpServer::Impl : std::enable_shared_from_this<HttpServer::Impl> {
  Impl(AsioLoop& event_loop, HttpServerOptions given)
      : loop(event_loop),
        io(event_loop.impl().io),
        options(std::move(given)),
        acceptor(io),
        retry(io) {}

  void listen();
  void accept();
  void on_accept(const boost::system::error_code& error, tcp::socket socket);

  AsioLoop& loop;
  asio::io_context& io;
  const HttpServerOptions options;
  tcp::acceptor acceptor;
  asio::steady_timer retry;
  uint16_t port = 0;   // the bound one
  // Shared with connections, which may outlive the server inside a writer.
  std::shared_ptr<ServerState> state = std::make_shared<ServerState>();
  std::map<Connection*, std::shared_ptr<Connection>> connections;   // shared with operations
};

void HttpServer::Impl::listen() {
  const std::string where = options.address + ":" + std::to_string(options.port);
  const std::string numeric = options.address == "localhost" ? "127.0.0.1" : options.address;
  boost::system::error_code error;
  const auto address = asio::ip::make_address(numeric, error);
  if (error) {
    throw StartupError("can't serve HTTP on " + where + ": '" + options.address +
                       "' is not a numeric address; use one such as 127.0.0.1");
  }
  const tcp::endpoint endpoint(address, options.port);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (error) throw bind_error(where, error);
  port = acceptor.local_endpoint().port();
  accept();
}

void HttpServer::Impl::accept() {
  acceptor.async_accept(io, [self = shared_from_this()](const boost::system::error_code& error,
                                                        tcp::socket socket) {
    self->on_accept(error, std::move(socket));
  });
}

void HttpServer::Impl::on_accept(const boost::system::error_code& error, tcp::socket socket) {
  if (!acceptor.is_open()) return;
  if (error) {
    // Out of descriptors, most likely: trying again at once would only spin.
    retry.expires_after(100ms);
    retry.async_wait([self = shared_from_this()](const boost::system::error_code& cancelled) {
      if (!cancelled && self->acceptor.is_open()) self->accept();
    });
    return;
  }
  ++state->stats.accepted;
  const size_t limit = options.limits.max_connections;
  const bool refused = connections.size() >= limit;
  if (refused) ++state->stats.refused;
  if (connections.size() < limit + kMaxTurnedAway) {
    auto connection = std::make_shared<Connection>(loop, std::move(socket), state);
    connections.emplace(connection.get(), connection);
    state->stats.open = connections.size();
    if (refused) {
      HttpResponse response = make_error(503, "too many connections; try again later");
      response.headers.push_back({"Retry-After", "1"});
      connection->turn_away(response);
    } else {
      connection->start();
    }
  }
  accept();
}

HttpServer::HttpServer(AsioLoop& loop, HttpServerOptions options, HttpHandler handler)
    : impl_(std::make_shared<Impl>(loop, std::move(options))) {
  impl_->state->limits = impl_->options.limits;
  impl_->state->handler = std::move(handler);
  impl_->state->on_end = [impl = impl_.get()](Connection* connection) {
    impl->connections.erase(connection);
    impl->state->stats.open = impl->connections.size();
  };
  impl_->listen();
}

HttpServer::~HttpServer() {
  boost::system::error_code ignored;
  impl_->acceptor.close(ignored);
  impl_->retry.cancel();
  impl_->state->handler = nullptr;
  while (!impl_->connections.empty()) impl_->connections.begin()->second->close();
  impl_->state->on_end = nullptr;
}

uint16_t HttpServer::port() const { return impl_->port; }

std::string HttpServer::url() const {
  const std::string& address = impl_->options.address;
  const bool v6 = address.find(':') != std::string::npos;
  return "http://" + (v6 ? "[" + address + "]" : address) + ":" + std::to_string(port());
}

HttpStats HttpServer::stats() const { return impl_->state->stats; }

void HttpServer::drain() {
  boost::system::error_code ignored;
  impl_->acceptor.close(ignored);
  impl_->retry.cancel();
  impl_->state->draining = true;
  const auto open = impl_->connections;   // closing changes the map
  for (const auto& [key, connection] : open) connection->close_when_idle();
}

HttpThread::HttpThread(HttpServerOptions options, HttpHandler handler)
    : server_(std::make_unique<HttpServer>(loop_, std::move(options), std::move(handler))),
      port_(server_->port()),
      url_(server_->url()),
      thread_([this] { loop_.run(); }) {}

HttpThread::~HttpThread() {
  loop_.post([this] { server_.reset(); });
  loop_.stop();
  thread_.join();
}

}  // namespace tandem::http
