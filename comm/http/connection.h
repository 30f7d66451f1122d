#pragma once
// One client connection: reads requests one after the other, writes their responses.

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "comm/http/asio_loop.h"
#include "comm/http/request_reader.h"
#include "comm/http/server.h"

namespace tandem::http {

class Connection;

// What the connections of one server share with it. Loop thread only.
struct ServerState {
  HttpLimits limits;
  HttpHandler handler;   // empty once the server is gone
  HttpStats stats;
  bool draining = false;
  std::function<void(Connection*)> on_end;   // forgets the connection
};

// One request and the response to it, as the connection and the writer share them.
struct Exchange {
  explicit Exchange(std::shared_ptr<Connection> of) : connection(std::move(of)) {}

  // Until the exchange is over; so a writer that is kept longer keeps no socket alive.
  std::shared_ptr<Connection> connection;
  bool head_only = false;    // HEAD: the body is not sent
  bool begun = false;        // the response's head is queued
  bool chunked = false;
  bool ended = false;        // everything is queued
  bool closed = false;       // the connection ended first
  bool left_pending = false; // on_drained is owed
  std::function<void()> on_drained;
  std::function<void()> on_closed;
};
using ExchangePtr = std::shared_ptr<Exchange>;   // shared by the connection and the writer

// Kept alive by the server, its pending socket operations and its current exchange; loop thread
// only. Never blocks, never calls a callback of a writer from inside a call to that writer.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  Connection(AsioLoop& loop, Socket socket, std::shared_ptr<ServerState> server);

  // One of these two, once.
  void start();
  void turn_away(const HttpResponse& response);   // says so and ends, whatever the client wants
  // Ends the connection now; the current exchange, if not over, is told.
  void close();
  // Ends it as soon as the current exchange is over.
  void close_when_idle();

  // For the writer of the current exchange.
  void respond(const HttpResponse& response);
  void begin_stream(int status, const Headers& headers);
  void write(std::string bytes);
  void end();
  size_t pending_bytes() const { return pending_bytes_; }
  void post(std::function<void()> action) { loop_.post(std::move(action)); }

 private:
  enum class Phase { kReading, kResponding, kClosing, kClosed };

  void arm_read();
  void on_read(const boost::system::error_code& error, size_t size);
  void advance();
  void dispatch();
  void answer_and_close(const HttpResponse& response);
  void queue_response(const HttpResponse& response, bool with_body, bool keep);
  void queue(std::string bytes);
  void flush();
  void wait_writable();
  void on_flushed();
  void finish_exchange();
  void release_exchange();
  void start_closing();
  void set_read_deadline(Duration limit);
  void on_read_deadline();
  void set_stall_deadline();

  AsioLoop& loop_;
  Socket socket_;
  std::shared_ptr<ServerState> server_;
  RequestReader reader_;
  boost::asio::steady_timer read_timer_;
  boost::asio::steady_timer write_timer_;
  std::string client_;
  Phase phase_ = Phase::kReading;
  RequestReader::State seen_ = RequestReader::State::kIdle;   // whose deadline is set
  bool reading_ = false;         // an async read is pending
  bool waiting_writable_ = false;
  bool keep_alive_ = true;
  ExchangePtr exchange_;         // the current one, while kResponding
  std::deque<std::string> out_;  // what the socket has not taken yet
  size_t out_offset_ = 0;        // bytes taken of out_.front()
  size_t pending_bytes_ = 0;
};

}  // namespace tandem::http
