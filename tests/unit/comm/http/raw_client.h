#pragma once
// A client that sends the bytes it is told to, and a server for it to talk to.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "comm/http/server.h"

namespace tandem::http {

// One connection to 127.0.0.1. Every wait gives up after five seconds.
class RawClient {
 public:
  // receive_buffer: bytes the kernel may hold for this client (0 = its default).
  explicit RawClient(uint16_t port, int receive_buffer = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  // False when the connection is gone.
  bool send(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<size_t>(n);
    }
    return true;
  }
  // Reads until what was read contains `text`; returns everything up to and with it, or what came
  // before the end.
  std::string read_until(const std::string& text) {
    for (;;) {
      const size_t at = buffer_.find(text);
      if (at != std::string::npos) return take(at + text.size());
      if (!read_more()) return take(buffer_.size());
    }
  }
  std::string read_exactly(size_t size) {
    while (buffer_.size() < size && read_more()) {
    }
    return take(std::min(size, buffer_.size()));
  }
  std::string read_to_end() {
    while (read_more()) {
    }
    return take(buffer_.size());
  }
  // True when the server ends the connection within five seconds.
  bool sees_end() {
    while (read_more()) {
    }
    return ended_;
  }

  struct Response {
    int status = 0;   // 0: no response came
    std::string head;
    std::string body;
  };
  // A response with Content-Length or chunked body. with_body: false after HEAD.
  Response read_response(bool with_body = true) {
    Response response;
    response.head = read_until("\r\n\r\n");
    if (response.head.size() < 12) return response;
    response.status = std::stoi(response.head.substr(9, 3));
    if (!with_body) return response;
    const size_t length = response.head.find("Content-Length: ");
    if (length != std::string::npos) {
      response.body = read_exactly(std::stoul(response.head.substr(length + 16)));
    } else if (response.head.find("Transfer-Encoding: chunked") != std::string::npos) {
      for (std::string chunk = read_chunk(); !chunk.empty(); chunk = read_chunk()) {
        response.body += chunk;
      }
    } else {
      response.body = read_to_end();
    }
    return response;
  }
  // The next chunk's bytes; empty for the last one.
  std::string read_chunk() {
    const std::string line = read_until("\r\n");
    if (line.size() < 3) return {};
    const size_t size = std::stoul(line, nullptr, 16);
    const std::string bytes = read_exactly(size);
    read_exactly(2);
    return bytes;
  }

 private:
  std::string take(size_t size) {
    std::string taken = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return taken;
  }
  bool read_more() {
    pollfd waiting{fd_, POLLIN, 0};
    if (fd_ < 0 || ended_ || poll(&waiting, 1, 5000) <= 0) return false;
    char bytes[65536];
    const ssize_t n = recv(fd_, bytes, sizeof bytes, 0);
    if (n <= 0) {
      ended_ = true;
      return false;
    }
    buffer_.append(bytes, static_cast<size_t>(n));
    return true;
  }

  int fd_;
  bool connected_ = false;
  bool ended_ = false;
  std::string buffer_;
};

// An HttpServer on a loop thread.
class TestServer {
 public:
  explicit TestServer(HttpHandler handler, HttpLimits limits = {}) {
    server_ = std::make_unique<HttpServer>(loop_, HttpServerOptions{.limits = limits},
                                           std::move(handler));
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~TestServer() {
    call([this] { server_.reset(); });
    loop_.stop();
    thread_.join();
  }
  AsioLoop& loop() { return loop_; }
  HttpServer& server() { return *server_; }
  uint16_t port() const { return server_->port(); }
  HttpStats stats() {
    HttpStats stats;
    call([&] { stats = server_->stats(); });
    return stats;
  }
  void call(const std::function<void()>& action) {
    std::promise<void> done;
    loop_.post([&] {
      action();
      done.set_value();
    });
    done.get_future().wait();
  }
  // Waits until no connection is open; false after five seconds.
  bool all_closed() {
    for (int i = 0; i < 1000 && stats().open > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return stats().open == 0;
  }

 private:
  AsioLoop loop_;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

inline size_t count_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

// GET of a path, keep-alive.
inline std::string get(const std::string& path) {
  return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n";
}

// Answers with what it was asked: "METHOD path?query body".
inline void echo(const HttpRequest& request, ResponseWriterPtr writer) {
  std::string text = request.method + " " + request.path;
  if (!request.query.empty()) text += "?" + request.query;
  if (!request.body.empty()) text += " " + request.body;
  writer->respond(make_response(200, "text/plain", text));
}

}  // namespace tandem::http
