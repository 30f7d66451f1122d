#include "cli/client/http_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

namespace tandem::client {
namespace {

using std::chrono::milliseconds;

// Serves one connection on a free loopback port: reads the request's head and body, then sends
// `pieces` and closes, or keeps the connection open until the client leaves.
class OneReply {
 public:
  OneReply(std::vector<std::string> pieces, bool stay_open = false)
      : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(socket_, 1), 0);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, pieces = std::move(pieces), stay_open] {
      const int peer = accept(socket_, nullptr, nullptr);
      char buffer[4096];
      while (request_.find("\r\n\r\n") == std::string::npos || !body_is_complete()) {
        const ssize_t count = read(peer, buffer, sizeof buffer);
        if (count <= 0) break;
        request_.append(buffer, static_cast<size_t>(count));
      }
      for (const std::string& piece : pieces) {
        if (write(peer, piece.data(), piece.size()) < 0) break;
        std::this_thread::sleep_for(milliseconds(2));
      }
      if (stay_open) (void)!read(peer, buffer, sizeof buffer);
      close(peer);
    });
  }
  ~OneReply() {
    join();
    close(socket_);
  }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  Url url() const { return {"127.0.0.1", std::to_string(port_)}; }
  const std::string& request() {
    join();
    return request_;
  }

 private:
  bool body_is_complete() const {
    const size_t at = request_.find("Content-Length: ");
    if (at == std::string::npos) return true;
    const size_t length = std::stoul(request_.substr(at + 16));
    return request_.size() >= request_.find("\r\n\r\n") + 4 + length;
  }
  int socket_;
  int port_ = 0;
  std::string request_;
  std::thread thread_;
};

TEST(ParseUrl, AcceptsHostAndPortOnly) {
  EXPECT_EQ(parse_url("http://127.0.0.1:8000/")->text(), "http://127.0.0.1:8000");
  EXPECT_EQ(parse_url("http://[::1]:80")->host, "::1");
  for (const char* bad : {"", "127.0.0.1:1", "https://a:1", "http://a", "http://:1", "http://a:",
                          "http://a:x", "http://a:123456", "http://a/b:1", "http://a:1/v1"}) {
    const Result<Url> url = parse_url(bad);
    ASSERT_FALSE(url.ok()) << bad;
    EXPECT_EQ(url.error().message,
              std::string("\"").append(bad) + "\" is not an address; write http://127.0.0.1:8000");
  }
}

TEST(Exchange, SendsTheBodyAndCollectsTheReply) {
  OneReply server({"HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\nhel", "lo"});
  HttpRequest request;
  request.method = "POST";
  request.target = "/x";
  request.body = "{}";
  const Result<HttpReply> reply = exchange(server.url(), request);
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(reply->status, 202);
  EXPECT_EQ(reply->body, "hello");
  EXPECT_TRUE(server.request().starts_with("POST /x HTTP/1.1\r\n"));
  EXPECT_TRUE(server.request().ends_with("\r\n\r\n{}"));
}

TEST(Exchange, StreamsAChunkedBody) {
  OneReply server({"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "3\r\nabc\r\n",
                   "2\r\nde\r\n", "0\r\n\r\n"});
  std::string body;
  const Result<HttpReply> reply = exchange(server.url(), {}, [&](std::string_view piece) {
    body += piece;
    return true;
  });
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(body, "abcde");
  EXPECT_EQ(reply->body, "");
}

TEST(Exchange, CollectsTheBodyOfAnErrorInsteadOfStreamingIt) {
  OneReply server({"HTTP/1.1 400 Bad\r\nContent-Length: 2\r\n\r\nno"});
  const Result<HttpReply> reply =
      exchange(server.url(), {}, [](std::string_view) { return false; });
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->status, 400);
  EXPECT_EQ(reply->body, "no");
}

TEST(Exchange, ReportsABrokenBody) {
  OneReply server({"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf"});
  const Result<HttpReply> reply = exchange(server.url(), {});
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().code, ErrorCode::kUnavailable);
}

TEST(Exchange, EndsAtItsTimeout) {
  OneReply server({}, true);
  HttpRequest request;
  request.idle_timeout = milliseconds(50);
  const Result<HttpReply> reply = exchange(server.url(), request);
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().code, ErrorCode::kDeadline);
}

TEST(Exchange, EndsWhenItsCallerSaysSo) {
  OneReply server({"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf"}, true);
  HttpRequest request;
  request.is_cancelled = [] { return true; };
  const Result<HttpReply> waiting = exchange(server.url(), request);
  ASSERT_FALSE(waiting.ok());
  EXPECT_EQ(waiting.error().code, ErrorCode::kCancelled);
}

TEST(Exchange, ReportsThatNobodyListens) {
  const Result<HttpReply> reply = exchange({"127.0.0.1", "1"}, {});
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(reply.error().message, "http://127.0.0.1:1: can't connect: Connection refused");
}

}  // namespace
}  // namespace tandem::client
