#pragma once
// Bytes of a connection → requests, within limits. Hides the parser (the only use of Beast).

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "comm/http/message.h"
#include "comm/http/server.h"

namespace tandem::http {

// Owned by a Connection. Does no I/O.
class RequestReader {
 public:
  enum class State {
    kIdle,       // nothing of the next request is here
    kHeader,     // a part of its header is
    kBody,       // its header is whole, its body isn't
    kDone,       // take() it
    kBad,        // error() says why; the connection can't go on
  };

  explicit RequestReader(const HttpLimits& limits);
  ~RequestReader();

  // Room for `size` more bytes, to be filled and then committed.
  std::pair<void*, size_t> prepare(size_t size);
  void commit(size_t size);
  size_t buffered() const;
  void discard();   // forgets what is buffered

  // Parses what is buffered and returns where that leads. Idempotent.
  State advance();
  State state() const { return state_; }

  // Whether the client waits for "100 Continue" before it sends the body. Requires: kBody.
  bool expects_continue() const;
  // Requires: kBad.
  HttpResponse error() const;
  // True once the header is known and asks for no body in the response (HEAD).
  bool is_head() const;
  // Whether the connection can carry another request after this one. Requires: header known.
  bool keep_alive() const;
  // HTTP/1.1, so the response may be chunked. Requires: header known.
  bool is_http_1_1() const;

  // The request; the reader starts on the next one. Requires: kDone.
  HttpRequest take();

 private:
  struct Parser;
  State refuse(int status, std::string message);
  State check_header();

  const HttpLimits limits_;
  std::unique_ptr<Parser> parser_;
  State state_ = State::kIdle;
  bool header_checked_ = false;
  bool head_ = false;
  bool keep_alive_ = false;
  bool http_1_1_ = true;
  bool expects_continue_ = false;
  int error_status_ = 0;
  std::string error_message_;
};

}  // namespace tandem::http
