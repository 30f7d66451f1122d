#include "comm/kvlink/tcp/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

namespace tandem::kvlink {
namespace {

constexpr int kBacklog = 64;

Error io_error(const std::string& what, int code) {
  return {ErrorCode::kIo, what + ": " + std::strerror(code), ""};
}

void set_option(const FileDescriptor& socket, int level, int name, int value) {
  // A refused tuning option costs latency, not correctness.
  (void)::setsockopt(socket.get(), level, name, &value, sizeof(value));
}

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<AddressList> look_up(const HostPort& address, bool passive) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo* list = nullptr;
  const std::string port = std::to_string(address.port);
  const int rc = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &list);
  if (rc != 0) return Error{ErrorCode::kIo, address.host + ": " + ::gai_strerror(rc), ""};
  return AddressList(list, &::freeaddrinfo);
}

FileDescriptor open_socket(const addrinfo& info) {
  return FileDescriptor(::socket(info.ai_family, info.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                                 info.ai_protocol));
}

}  // namespace

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void FileDescriptor::reset() {
  if (valid()) ::close(std::exchange(fd_, -1));
}

Result<HostPort> parse_endpoint(std::string_view endpoint) {
  const Error wrong{ErrorCode::kInvalidArgument,
                    "endpoint '" + std::string(endpoint) + "' is not tcp://host:port", ""};
  constexpr std::string_view kScheme = "tcp://";
  if (!endpoint.starts_with(kScheme)) return wrong;
  std::string_view rest = endpoint.substr(kScheme.size());
  const size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return wrong;
  std::string_view host = rest.substr(0, colon);
  const std::string_view port = rest.substr(colon + 1);
  if (host.front() == '[') {
    if (host.back() != ']' || host.size() < 3) return wrong;
    host = host.substr(1, host.size() - 2);
  }
  HostPort address{std::string(host), 0};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size()) return wrong;
  return address;
}

std::string format_endpoint(const HostPort& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return "tcp://" + (v6 ? "[" + address.host + "]" : address.host) + ":" +
         std::to_string(address.port);
}

Result<FileDescriptor> listen_on(const HostPort& address) {
  Result<AddressList> list = look_up(address, true);
  if (!list.ok()) return list.error();
  const addrinfo& info = *list.value();
  const std::string where = format_endpoint(address);
  FileDescriptor socket = open_socket(info);
  if (!socket.valid()) return io_error("socket for " + where, errno);
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(socket.get(), info.ai_addr, info.ai_addrlen) != 0) {
    return io_error("bind " + where, errno);
  }
  if (::listen(socket.get(), kBacklog) != 0) return io_error("listen on " + where, errno);
  return socket;
}

Result<uint16_t> bound_port(const FileDescriptor& listener) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    return io_error("getsockname", errno);
  }
  if (storage.ss_family == AF_INET6) {
    return uint16_t{ntohs(reinterpret_cast<const sockaddr_in6&>(storage).sin6_port)};
  }
  return uint16_t{ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port)};
}

FileDescriptor accept_from(const FileDescriptor& listener) {
  return FileDescriptor(
      ::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

Result<FileDescriptor> start_connect(const HostPort& address) {
  Result<AddressList> list = look_up(address, false);
  if (!list.ok()) return list.error();
  const addrinfo& info = *list.value();
  FileDescriptor socket = open_socket(info);
  if (!socket.valid()) return io_error("socket", errno);
  if (::connect(socket.get(), info.ai_addr, info.ai_addrlen) != 0 && errno != EINPROGRESS) {
    return io_error("connect to " + format_endpoint(address), errno);
  }
  return socket;
}

Status connect_outcome(const FileDescriptor& socket) {
  int code = 0;
  socklen_t length = sizeof(code);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &length) != 0) code = errno;
  if (code != 0) return io_error("connect", code);
  return {};
}

void tune(const FileDescriptor& socket, Duration progress_timeout) {
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(progress_timeout).count();
  const int seconds = static_cast<int>(std::max<int64_t>(1, milliseconds / 1000));
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, seconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(milliseconds));
}

}  // namespace tandem::kvlink
