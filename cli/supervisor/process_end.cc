#include "cli/supervisor/process_end.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace tandem::supervisor {

// The C library's header declares pidfd_open for C only. The file closes itself on exec.
ProcessEnd::ProcessEnd(pid_t pid) : fd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {}

ProcessEnd::~ProcessEnd() {
  if (fd_ >= 0) close(fd_);
}

ProcessEnd::ProcessEnd(ProcessEnd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

ProcessEnd& ProcessEnd::operator=(ProcessEnd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

bool ProcessEnd::ended() const {
  if (fd_ < 0) return true;
  pollfd file{fd_, POLLIN, 0};
  return poll(&file, 1, 0) > 0;
}

}  // namespace tandem::supervisor
