#include "cli/supervisor/child.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "comm/launch/process.h"
#include "comm/runtime/check.h"

extern char** environ;

namespace tandem::supervisor {
namespace {

constexpr size_t kMaxLineBytes = size_t{64} << 10;

struct Pipe {
  int read_end = -1;
  int write_end = -1;
};

Pipe make_pipe() {
  int ends[2];
  CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
  return {ends[0], ends[1]};
}

void close_fd(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

// This process's environment with the command's additions in place of equal names.
std::vector<std::string> merged_environment(const std::vector<std::string>& additions) {
  std::vector<std::string> merged = additions;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('=') + 1);
    bool is_replaced = false;
    for (const std::string& addition : additions) {
      is_replaced = is_replaced || addition.starts_with(name);
    }
    if (!is_replaced) merged.push_back(text);
  }
  return merged;
}

// Between fork and exec: only calls that are safe there. Reports errno through `report_fd`.
[[noreturn]] void become(char* const* arguments, char* const* environment, int stdout_fd,
                         int stderr_fd, int report_fd, pid_t parent) {
  launch::die_with_parent(parent);
  launch::unblock_all_signals();
  signal(SIGPIPE, SIG_DFL);
  setsid();
  const int null_fd = open("/dev/null", O_RDONLY);
  dup2(null_fd, STDIN_FILENO);
  dup2(stdout_fd, STDOUT_FILENO);
  dup2(stderr_fd, STDERR_FILENO);
  execvpe(arguments[0], arguments, environment);
  const int error = errno;
  (void)!write(report_fd, &error, sizeof error);
  _exit(127);
}

}  // namespace

Result<Child> Child::start(const Command& command) {
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = merged_environment(command.environment);
  const std::vector<char*> argument_list = pointers(arguments);
  const std::vector<char*> environment_list = pointers(environment);
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  Pipe report = make_pipe();
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    become(argument_list.data(), environment_list.data(), out.write_end, err.write_end,
           report.write_end, parent);
  }
  const int fork_error = errno;
  close_fd(out.write_end);
  close_fd(err.write_end);
  close_fd(report.write_end);
  int exec_error = pid < 0 ? fork_error : 0;
  if (pid > 0) (void)!read(report.read_end, &exec_error, sizeof exec_error);
  close_fd(report.read_end);
  if (exec_error == 0) {
    fcntl(out.read_end, F_SETFL, O_NONBLOCK);
    fcntl(err.read_end, F_SETFL, O_NONBLOCK);
    return Child(pid, out.read_end, err.read_end);
  }
  if (pid > 0) waitpid(pid, nullptr, 0);
  close_fd(out.read_end);
  close_fd(err.read_end);
  return Error{exec_error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
               arguments[0] + ": " + std::strerror(exec_error), ""};
}

Child::Child(pid_t pid, int stdout_fd, int stderr_fd)
    : pid_(pid), stdout_fd_(stdout_fd), stderr_fd_(stderr_fd) {}

Child::Child(Child&& other) noexcept
    : pid_(other.pid_),
      stdout_fd_(std::exchange(other.stdout_fd_, -1)),
      stderr_fd_(std::exchange(other.stderr_fd_, -1)),
      stdout_rest_(std::move(other.stdout_rest_)),
      stderr_rest_(std::move(other.stderr_rest_)),
      exit_status_(other.exit_status_) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(stdout_fd_, other.stdout_fd_);
  std::swap(stderr_fd_, other.stderr_fd_);
  std::swap(stdout_rest_, other.stdout_rest_);
  std::swap(stderr_rest_, other.stderr_rest_);
  std::swap(exit_status_, other.exit_status_);
  return *this;
}

Child::~Child() {
  close_fd(stdout_fd_);
  close_fd(stderr_fd_);
}

std::vector<std::string> Child::read_lines(int& fd, std::string& rest) {
  std::vector<std::string> lines;
  std::array<char, 4096> buffer;
  while (fd >= 0) {
    const ssize_t count = read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    if (count == 0) {
      close_fd(fd);
      if (!rest.empty()) lines.push_back(std::exchange(rest, {}));
      break;
    }
    for (ssize_t i = 0; i < count; ++i) {
      if (buffer[i] != '\n') rest += buffer[i];
      if (buffer[i] == '\n' || rest.size() >= kMaxLineBytes) {
        lines.push_back(std::exchange(rest, {}));
      }
    }
  }
  return lines;
}

std::optional<int> Child::poll_exit() {
  if (exit_status_.has_value()) return exit_status_;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  exit_status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return exit_status_;
}

void Child::signal(int number) const {
  if (!exit_status_.has_value()) kill(pid_, number);
}

}  // namespace tandem::supervisor
