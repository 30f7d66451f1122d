#include "comm/http/connection.h"

#include <array>
#include <boost/asio/buffer.hpp>
#include <cstdio>
#include <ctime>
#include <utility>

#include "comm/http/asio_loop_impl.h"
#include "comm/runtime/check.h"

namespace tandem::http {
namespace {
namespace asio = boost::asio;
using State = RequestReader::State;

constexpr size_t kReadBytes = 16u << 10;
constexpr size_t kMaxPipelinedBytes = 64u << 10;   // read ahead while a response is under way
constexpr Duration kLinger = std::chrono::seconds(2);   // for the client to read an error and close

// Header values come from applications too; a line break in one must not become a header.
void append_header(std::string& head, std::string_view name, std::string_view value) {
  head += name;
  head += ": ";
  for (const char c : value) head += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  head += "\r\n";
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[40];
  std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return text;
}

std::string make_head(int status, const Headers& headers) {
  std::string head = "HTTP/1.1 " + std::to_string(status) + " " + status_text(status) + "\r\n";
  append_header(head, "Date", date_now());
  for (const Header& header : headers) append_header(head, header.name, header.value);
  return head;
}

// The handle the application holds. Cuts the connection when it is dropped too early.
class Writer final : public ResponseWriter {
 public:
  Writer(AsioLoop& loop, ExchangePtr exchange) : loop_(loop), exchange_(std::move(exchange)) {}
  ~Writer() override {
    if (!exchange_->ended) abort();
  }

  void respond(HttpResponse response) override {
    CHECK(!exchange_->begun);
    exchange_->begun = true;
    exchange_->ended = true;
    if (const auto connection = exchange_->connection) connection->respond(response);
  }
  void begin_stream(int status, Headers headers) override {
    CHECK(!exchange_->begun);
    exchange_->begun = true;
    if (const auto connection = exchange_->connection) connection->begin_stream(status, headers);
  }
  void write(std::string bytes) override {
    CHECK(exchange_->begun);
    CHECK(!exchange_->ended);
    if (const auto connection = exchange_->connection) connection->write(std::move(bytes));
  }
  void end() override {
    CHECK(exchange_->begun);
    CHECK(!exchange_->ended);
    exchange_->ended = true;
    if (const auto connection = exchange_->connection) connection->end();
  }
  void abort() override {
    exchange_->begun = true;
    exchange_->ended = true;
    if (const auto connection = exchange_->connection) connection->close();
  }
  size_t pending_bytes() const override {
    return exchange_->connection ? exchange_->connection->pending_bytes() : 0;
  }
  bool closed() const override { return exchange_->closed; }

  void on_drained(std::function<void()> callback) override {
    if (exchange_->connection) exchange_->on_drained = std::move(callback);
  }
  void on_closed(std::function<void()> callback) override {
    if (exchange_->closed) {
      loop_.post(std::move(callback));
    } else if (exchange_->connection) {
      exchange_->on_closed = std::move(callback);
    }
  }

 private:
  AsioLoop& loop_;
  ExchangePtr exchange_;
};

}  // namespace

Connection::Connection(AsioLoop& loop, Socket socket, std::shared_ptr<ServerState> server)
    : loop_(loop),
      socket_(std::move(socket)),
      server_(std::move(server)),
      reader_(server_->limits),
      read_timer_(loop.impl().io),
      write_timer_(loop.impl().io) {
  boost::system::error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  const auto remote = socket_.remote_endpoint(ignored);
  client_ = remote.address().to_string() + ":" + std::to_string(remote.port());
}

void Connection::start() {
  set_read_deadline(server_->limits.header_timeout);
  arm_read();
}

void Connection::turn_away(const HttpResponse& response) {
  arm_read();
  answer_and_close(response);
}

// --- reading ---

void Connection::arm_read() {
  if (reading_ || phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kResponding && reader_.buffered() >= kMaxPipelinedBytes) return;
  reading_ = true;
  const auto [data, size] = reader_.prepare(kReadBytes);
  socket_.async_read_some(asio::buffer(data, size),
                          [self = shared_from_this()](const boost::system::error_code& error,
                                                      size_t got) { self->on_read(error, got); });
}

void Connection::on_read(const boost::system::error_code& error, size_t size) {
  reading_ = false;
  if (phase_ == Phase::kClosed) return;
  if (error) return close();
  reader_.commit(size);
  if (phase_ == Phase::kReading) advance();
  if (phase_ == Phase::kClosing) reader_.discard();
  arm_read();
}

// Parses what has been read. Requires: kReading.
void Connection::advance() {
  const State state = reader_.advance();
  if (state == State::kBad) {
    ++server_->stats.bad_requests;
    return answer_and_close(reader_.error());
  }
  if (state == State::kDone) return dispatch();
  if (state == seen_) return;
  seen_ = state;
  if (state == State::kHeader) set_read_deadline(server_->limits.header_timeout);
  if (state == State::kBody) {
    set_read_deadline(server_->limits.body_timeout);
    if (reader_.expects_continue()) {
      queue("HTTP/1.1 100 Continue\r\n\r\n");
      flush();
    }
  }
}

void Connection::dispatch() {
  read_timer_.cancel();
  phase_ = Phase::kResponding;
  exchange_ = std::make_shared<Exchange>(shared_from_this());
  exchange_->head_only = reader_.is_head();
  exchange_->chunked = reader_.is_http_1_1();
  keep_alive_ = reader_.keep_alive() && !server_->draining;
  HttpRequest request = reader_.take();
  request.client = client_;
  ++server_->stats.requests;
  auto writer = std::make_shared<Writer>(loop_, exchange_);
  if (server_->handler) server_->handler(request, std::move(writer));
}

void Connection::answer_and_close(const HttpResponse& response) {
  read_timer_.cancel();
  phase_ = Phase::kClosing;
  queue_response(response, /*with_body=*/!reader_.is_head(), /*keep=*/false);
  flush();
}

void Connection::set_read_deadline(Duration limit) {
  read_timer_.expires_after(limit);
  read_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error || self->phase_ == Phase::kClosed) return;
    if (self->read_timer_.expiry() > std::chrono::steady_clock::now()) return;   // set anew
    self->on_read_deadline();
  });
}

void Connection::on_read_deadline() {
  if (phase_ == Phase::kResponding) return;
  const State state = reader_.state();
  if (phase_ == Phase::kReading && (state == State::kHeader || state == State::kBody)) {
    ++server_->stats.bad_requests;
    return answer_and_close(make_error(408, state == State::kHeader
                                                ? "the header took too long to arrive"
                                                : "the body took too long to arrive"));
  }
  close();
}

// --- writing ---

void Connection::queue_response(const HttpResponse& response, bool with_body, bool keep) {
  std::string bytes = make_head(response.status, response.headers);
  append_header(bytes, "Content-Length", std::to_string(response.body.size()));
  if (!keep) append_header(bytes, "Connection", "close");
  bytes += "\r\n";
  if (with_body) bytes += response.body;
  queue(std::move(bytes));
}

void Connection::respond(const HttpResponse& response) {
  keep_alive_ = keep_alive_ && !server_->draining;
  queue_response(response, !exchange_->head_only, keep_alive_);
  flush();
}

void Connection::begin_stream(int status, const Headers& headers) {
  std::string bytes = make_head(status, headers);
  keep_alive_ = keep_alive_ && !server_->draining && exchange_->chunked;
  if (exchange_->chunked) append_header(bytes, "Transfer-Encoding", "chunked");
  if (!keep_alive_) append_header(bytes, "Connection", "close");
  bytes += "\r\n";
  queue(std::move(bytes));
  flush();
}

void Connection::write(std::string bytes) {
  if (exchange_->head_only || bytes.empty()) return;
  if (exchange_->chunked) {
    char size[24];
    std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
    bytes.insert(0, size);
    bytes += "\r\n";
  }
  queue(std::move(bytes));
  flush();
}

void Connection::end() {
  if (exchange_->chunked && !exchange_->head_only) queue("0\r\n\r\n");
  flush();
}

void Connection::queue(std::string bytes) {
  pending_bytes_ += bytes.size();
  out_.push_back(std::move(bytes));
}

// Hands the socket what it takes now. Callbacks are posted, never called from here.
void Connection::flush() {
  constexpr size_t kMaxBuffers = 16;
  while (!out_.empty() && !waiting_writable_ && phase_ != Phase::kClosed) {
    std::array<asio::const_buffer, kMaxBuffers> buffers{};
    for (size_t i = 0; i < kMaxBuffers && i < out_.size(); ++i) {
      buffers[i] = asio::buffer(out_[i]);
    }
    buffers[0] += out_offset_;
    boost::system::error_code error;
    size_t taken = socket_.write_some(buffers, error);
    if (error == asio::error::would_block || error == asio::error::try_again) {
      return wait_writable();
    }
    if (error) return close();
    pending_bytes_ -= taken;
    while (!out_.empty() && taken >= out_.front().size() - out_offset_) {
      taken -= out_.front().size() - out_offset_;
      out_offset_ = 0;
      out_.pop_front();
    }
    out_offset_ += taken;
  }
  if (out_.empty() && phase_ != Phase::kClosed) on_flushed();
}

void Connection::wait_writable() {
  waiting_writable_ = true;
  if (exchange_) exchange_->left_pending = true;
  set_stall_deadline();
  socket_.async_wait(Socket::wait_write,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       self->waiting_writable_ = false;
                       if (self->phase_ == Phase::kClosed) return;
                       if (error) return self->close();
                       self->flush();
                     });
}

// The deadline moves with every byte the client takes: wait_writable() is reached again then.
void Connection::set_stall_deadline() {
  write_timer_.expires_after(server_->limits.client_stall);
  write_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error || self->phase_ == Phase::kClosed || !self->waiting_writable_) return;
    if (self->write_timer_.expiry() > std::chrono::steady_clock::now()) return;   // set anew
    ++self->server_->stats.stalled;
    self->close();
  });
}

void Connection::on_flushed() {
  write_timer_.cancel();
  if (phase_ == Phase::kClosing) return start_closing();
  if (phase_ != Phase::kResponding) return;   // only "100 Continue" was queued
  if (exchange_->ended) return finish_exchange();
  if (!exchange_->left_pending) return;
  exchange_->left_pending = false;
  post([exchange = exchange_] {
    if (exchange->connection && exchange->on_drained) exchange->on_drained();
  });
}

void Connection::finish_exchange() {
  release_exchange();
  if (!keep_alive_ || server_->draining) {
    phase_ = Phase::kClosing;
    return start_closing();
  }
  phase_ = Phase::kReading;
  seen_ = State::kIdle;
  set_read_deadline(server_->limits.idle_timeout);
  // Posted: the next request may be here already, and requests must not nest.
  post([self = shared_from_this()] {
    if (self->phase_ != Phase::kReading) return;
    self->advance();
    self->arm_read();
  });
}

// The exchange is over. This may run inside one of its callbacks: they are destroyed later.
void Connection::release_exchange() {
  post([told = exchange_->closed, drained = std::exchange(exchange_->on_drained, nullptr),
        closed = std::exchange(exchange_->on_closed, nullptr)] {
    if (told && closed) closed();
  });
  exchange_->connection.reset();
  exchange_.reset();
}

// --- the end ---

// Everything is written: says so to the client and gives it a moment to read it and close; what it
// still sends is thrown away. Closing at once could make the kernel drop what we sent.
void Connection::start_closing() {
  boost::system::error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  reader_.discard();
  set_read_deadline(kLinger);
  arm_read();
}

void Connection::close_when_idle() {
  if (phase_ == Phase::kReading && reader_.state() == State::kIdle && reader_.buffered() == 0) {
    close();
  }
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  const auto self = shared_from_this();   // on_end may drop the last other reference
  phase_ = Phase::kClosed;
  boost::system::error_code ignored;
  socket_.close(ignored);
  read_timer_.cancel();
  write_timer_.cancel();
  out_.clear();
  pending_bytes_ = 0;
  if (exchange_) {
    exchange_->closed = true;
    release_exchange();
  }
  if (server_->on_end) server_->on_end(this);
}

}  // namespace tandem::http
