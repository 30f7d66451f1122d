#pragma once
// The end of a process that isn't our child: a worker behind its mpirun.

#include <sys/types.h>

namespace tandem::supervisor {

// Owned by the supervisor, one thread. Holds the process by a file, so a recycled pid can't be
// taken for it; the file becomes readable at its end, for poll(). Never signals it.
class ProcessEnd {
 public:
  // Follows `pid`. A process that is gone already, or can't be followed, counts as ended.
  explicit ProcessEnd(pid_t pid);
  ~ProcessEnd();
  ProcessEnd(ProcessEnd&& other) noexcept;
  ProcessEnd& operator=(ProcessEnd&& other) noexcept;
  ProcessEnd(const ProcessEnd&) = delete;
  ProcessEnd& operator=(const ProcessEnd&) = delete;

  int fd() const { return fd_; }  // -1: it was gone at the start
  // Never blocks. True for a zombie, too.
  bool ended() const;

 private:
  int fd_;
};

}  // namespace tandem::supervisor
