#pragma once
// A child process of the supervisor and the lines it prints.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/supervisor/command_lines.h"
#include "comm/runtime/result.h"

namespace tandem::supervisor {

// Owned by the supervisor, one thread. The child leads a session of its own (a terminal's Ctrl-C
// reaches the supervisor alone) and is killed by the kernel when the supervisor's thread ends.
// Destroying the handle closes its pipes; it neither kills nor waits.
class Child {
 public:
  // kNotFound or kIo when the program can't be started. Signals are unblocked in the child.
  static Result<Child> start(const Command& command);

  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  pid_t pid() const { return pid_; }
  int stdout_fd() const { return stdout_fd_; }  // -1 after its end
  int stderr_fd() const { return stderr_fd_; }

  // Reads what is there without blocking; whole lines only, the rest of a line at its end.
  std::vector<std::string> read_stdout() { return read_lines(stdout_fd_, stdout_rest_); }
  std::vector<std::string> read_stderr() { return read_lines(stderr_fd_, stderr_rest_); }

  // Exit status once it has ended: 0…255, or 128 + signal. Never blocks.
  std::optional<int> poll_exit();
  bool has_exited() const { return exit_status_.has_value(); }
  // No-op once the exit was seen, so a recycled pid is never hit.
  void signal(int number) const;

 private:
  Child(pid_t pid, int stdout_fd, int stderr_fd);
  static std::vector<std::string> read_lines(int& fd, std::string& rest);

  pid_t pid_;
  int stdout_fd_;
  int stderr_fd_;
  std::string stdout_rest_;
  std::string stderr_rest_;
  std::optional<int> exit_status_;
};

}  // namespace tandem::supervisor
