#include "raw_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "comm/runtime/check.h"

namespace tandem::gateway {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

RawClient::RawClient(uint16_t port, int receive_buffer) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(fd_ >= 0);
  if (receive_buffer > 0) {
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  }
  const timeval patience{.tv_sec = 10, .tv_usec = 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
}

void RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

void RawClient::post(const std::string& path, std::string_view body, const std::string& headers) {
  send("POST " + path + " HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n" + headers +
       "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body));
}

void RawClient::get(const std::string& path, const std::string& method) {
  send(method + " " + path + " HTTP/1.1\r\nHost: test\r\n\r\n");
}

bool RawClient::read_more() {
  char buffer[16384];
  const ssize_t count = ::recv(fd_, buffer, sizeof buffer, 0);
  if (count <= 0) return false;
  received_.append(buffer, static_cast<size_t>(count));
  return true;
}

bool RawClient::read_until(std::string_view text) {
  while (received_.find(text) == std::string::npos) {
    if (!read_more()) return false;
  }
  return true;
}

RawResponse RawClient::read_response(bool head_only) {
  RawResponse response;
  if (!read_until("\r\n\r\n")) return response;
  size_t at = received_.find("\r\n\r\n");
  std::string head = received_.substr(0, at);
  received_.erase(0, at + 4);
  response.status = std::atoi(head.c_str() + sizeof "HTTP/1.1");
  for (size_t line = head.find("\r\n"); line != std::string::npos;) {
    const size_t next = head.find("\r\n", line + 2);
    const std::string text = head.substr(line + 2, next - line - 2);
    const size_t colon = text.find(": ");
    if (colon != std::string::npos) {
      response.headers[lower(text.substr(0, colon))] = text.substr(colon + 2);
    }
    line = next;
  }
  if (head_only) {
    response.whole = true;
    return response;
  }
  if (response.headers["transfer-encoding"] != "chunked") {
    const size_t size = std::strtoul(response.headers["content-length"].c_str(), nullptr, 10);
    while (received_.size() < size && read_more()) {
    }
    response.whole = received_.size() >= size;
    response.body = received_.substr(0, size);
    received_.erase(0, size);
    return response;
  }
  for (;;) {
    if (!read_until("\r\n")) return response;
    const size_t size = std::strtoul(received_.c_str(), nullptr, 16);
    at = received_.find("\r\n") + 2;
    while (received_.size() < at + size + 2) {
      if (!read_more()) return response;
    }
    response.body += received_.substr(at, size);
    received_.erase(0, at + size + 2);
    if (size == 0) break;
  }
  response.whole = true;
  return response;
}

void RawClient::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

std::vector<std::string> sse_events(const std::string& body) {
  std::vector<std::string> events;
  size_t at = 0;
  while (at < body.size()) {
    const size_t end = body.find("\n\n", at);
    EXPECT_NE(end, std::string::npos) << "unfinished event: " << body.substr(at);
    if (end == std::string::npos) break;
    const std::string event = body.substr(at, end - at);
    EXPECT_EQ(event.rfind("data: ", 0), 0u) << event;
    EXPECT_EQ(event.find('\n'), std::string::npos) << event;
    events.push_back(event.substr(std::min<size_t>(6, event.size())));
    at = end + 2;
  }
  return events;
}

Json strict_json(const std::string& text) {
  Result<Json> json = read_json(text);
  if (!json.ok()) {
    ADD_FAILURE() << json.error().message << " in " << text;
    return Json::object();
  }
  return *std::move(json);
}

}  // namespace tandem::gateway
