#include "comm/http/request_reader.h"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/string_body.hpp>
#include <iterator>

#include "comm/runtime/check.h"

namespace tandem::http {
namespace beast = boost::beast;
using BeastError = beast::http::error;

struct RequestReader::Parser {
  beast::flat_buffer buffer;
  std::optional<beast::http::request_parser<beast::http::string_body>> request;

  void start(const HttpLimits& limits) {
    request.emplace();
    request->header_limit(static_cast<uint32_t>(limits.max_header_bytes));
    request->body_limit(limits.max_body_bytes);
  }
};

RequestReader::RequestReader(const HttpLimits& limits)
    : limits_(limits), parser_(std::make_unique<Parser>()) {
  parser_->start(limits_);
}

RequestReader::~RequestReader() = default;

std::pair<void*, size_t> RequestReader::prepare(size_t size) {
  const auto room = parser_->buffer.prepare(size);
  return {room.data(), room.size()};
}

void RequestReader::commit(size_t size) { parser_->buffer.commit(size); }

size_t RequestReader::buffered() const { return parser_->buffer.size(); }

void RequestReader::discard() { parser_->buffer.clear(); }

RequestReader::State RequestReader::refuse(int status, std::string message) {
  error_status_ = status;
  error_message_ = std::move(message);
  keep_alive_ = false;
  return state_ = State::kBad;
}

HttpResponse RequestReader::error() const {
  CHECK(state_ == State::kBad);
  return make_error(error_status_, error_message_);
}

bool RequestReader::expects_continue() const {
  CHECK(state_ == State::kBody);
  return expects_continue_;
}

bool RequestReader::is_head() const { return head_; }
bool RequestReader::keep_alive() const { return keep_alive_; }
bool RequestReader::is_http_1_1() const { return http_1_1_; }

RequestReader::State RequestReader::check_header() {
  header_checked_ = true;
  const auto& message = parser_->request->get();
  head_ = message.method() == beast::http::verb::head;
  http_1_1_ = message.version() == 11;
  keep_alive_ = http_1_1_ && message.keep_alive();
  const auto expect = message[beast::http::field::expect];
  expects_continue_ = http_1_1_ && beast::iequals(expect, "100-continue");
  if (message.version() != 10 && message.version() != 11) {
    return refuse(505, "this server speaks HTTP/1.1");
  }
  const auto num_headers = std::distance(message.begin(), message.end());
  if (static_cast<size_t>(num_headers) > limits_.max_headers) {
    return refuse(431, "the request has " + std::to_string(num_headers) +
                           " headers; the limit is " + std::to_string(limits_.max_headers));
  }
  if (http_1_1_ && message.count(beast::http::field::host) != 1) {
    return refuse(400, "an HTTP/1.1 request needs one Host header");
  }
  return state_ = State::kBody;
}

RequestReader::State RequestReader::advance() {
  auto& request = *parser_->request;
  while (state_ != State::kBad && state_ != State::kDone && parser_->buffer.size() > 0) {
    if (state_ == State::kIdle) state_ = State::kHeader;
    beast::error_code error;
    const size_t used = request.put(parser_->buffer.data(), error);
    parser_->buffer.consume(used);
    if (request.is_header_done() && !header_checked_ && check_header() == State::kBad) break;
    if (error == BeastError::need_more) break;
    if (error == BeastError::header_limit) {
      return refuse(431, "the request's header is larger than " +
                             std::to_string(limits_.max_header_bytes) + " bytes");
    }
    if (error == BeastError::body_limit) {
      return refuse(413, "the request's body is larger than " +
                             std::to_string(limits_.max_body_bytes) + " bytes");
    }
    if (error == BeastError::bad_version) return refuse(505, "this server speaks HTTP/1.1");
    if (error) return refuse(400, "malformed HTTP request: " + error.message());
    if (request.is_done()) state_ = State::kDone;
    if (used == 0) break;
  }
  return state_;
}

HttpRequest RequestReader::take() {
  CHECK(state_ == State::kDone);
  auto message = parser_->request->release();
  HttpRequest request;
  request.method = std::string(message.method_string());
  const std::string_view target(message.target().data(), message.target().size());
  const size_t mark = target.find('?');
  request.path = std::string(target.substr(0, mark));
  if (mark != std::string_view::npos) request.query = std::string(target.substr(mark + 1));
  for (const auto& field : message) {
    request.headers.push_back({std::string(field.name_string()), std::string(field.value())});
  }
  request.body = std::move(message.body());
  parser_->start(limits_);
  state_ = State::kIdle;
  header_checked_ = false;
  return request;
}

}  // namespace tandem::http
