#pragma once
// A TCP relay on 127.0.0.1 whose connections can be cut in the middle of whatever they carry.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

namespace tandem::transport {

// Relays one connection at a time to the given port.
class CutProxy {
 public:
  explicit CutProxy(uint16_t target) : target_(target), listener_(make_socket()) {
    sockaddr_in address = loopback(0);
    bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    listen(listener_, 16);
    socklen_t size = sizeof address;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    endpoint_ = "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { run(); });
  }
  ~CutProxy() {
    stop_ = true;
    thread_.join();
    close(listener_);
  }
  const std::string& endpoint() const { return endpoint_; }
  // Ends the current connection; what the relay holds of it is lost.
  void cut() { cut_ = true; }

 private:
  static int make_socket() { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }
  static sockaddr_in loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  void run() {
    while (!stop_) {
      pollfd waiting{listener_, POLLIN, 0};
      if (poll(&waiting, 1, 5) <= 0) continue;
      const int client = accept(listener_, nullptr, nullptr);
      const int server = make_socket();
      sockaddr_in address = loopback(target_);
      if (connect(server, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
        relay(client, server);
      }
      close(client);
      close(server);
    }
  }
  void relay(int client, int server) {
    cut_ = false;
    std::array<char, 1000> bytes{};
    while (!stop_ && !cut_) {
      pollfd both[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
      if (poll(both, 2, 5) <= 0) continue;
      for (int i = 0; i < 2; ++i) {
        if (both[i].revents == 0) continue;
        const ssize_t got = recv(both[i].fd, bytes.data(), bytes.size(), 0);
        if (got <= 0) return;
        const int other = i == 0 ? server : client;
        if (send(other, bytes.data(), static_cast<size_t>(got), MSG_NOSIGNAL) != got) return;
      }
    }
  }

  const uint16_t target_;
  const int listener_;
  std::string endpoint_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> cut_{false};
  std::thread thread_;
};

}  // namespace tandem::transport
