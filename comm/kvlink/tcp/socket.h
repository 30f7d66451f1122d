#pragma once
// Thin RAII over the socket calls the link needs. Every socket is non-blocking. No state, no
// threads, no protocol.

#include <cstdint>
#include <string>
#include <string_view>

#include "comm/runtime/clock.h"
#include "comm/runtime/result.h"

namespace tandem::kvlink {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { reset(); }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_;
};

struct HostPort {
  std::string host;
  uint16_t port = 0;
};

// "tcp://host:port", "tcp://[v6]:port". kInvalidArgument otherwise.
Result<HostPort> parse_endpoint(std::string_view endpoint);
std::string format_endpoint(const HostPort& address);

// kIo with the reason. Port 0: any free one.
Result<FileDescriptor> listen_on(const HostPort& address);
Result<uint16_t> bound_port(const FileDescriptor& listener);
// The next waiting connection; invalid when there is none.
FileDescriptor accept_from(const FileDescriptor& listener);

// Starts connecting. A host name (not a number) is looked up on the calling thread.
Result<FileDescriptor> start_connect(const HostPort& address);
// After the socket became writable: whether it is connected.
Status connect_outcome(const FileDescriptor& socket);

// No delay, keep-alive, and an end to a connection whose bytes aren't acknowledged in time.
void tune(const FileDescriptor& socket, Duration progress_timeout);

}  // namespace tandem::kvlink
