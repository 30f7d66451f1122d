#include "cli/supervisor/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "comm/runtime/rng.h"

namespace tandem::supervisor {
namespace {

namespace fs = std::filesystem;

constexpr char kHalfMade[] = ".new-";  // prefix of a folder whose lock is not taken yet
constexpr std::chrono::minutes kHalfMadeAge{1};

std::string user() { return std::to_string(getuid()); }

void check_private(const std::string& parent) {
  struct stat info {};
  const bool is_ours = lstat(parent.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
                       info.st_uid == getuid() && (info.st_mode & 0077) == 0;
  if (!is_ours) {
    throw StartupError(parent + ": not a folder that only this user can enter; remove it");
  }
}

// -1 when another process holds the lock or there is none.
int take_lock(const fs::path& folder, int flags) {
  const int fd = open((folder / "lock").c_str(), flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return -1;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  close(fd);
  return -1;
}

void kill_marked(const std::string& marker) {
  // Twice and more: a marked process may have forked just before it died.
  for (int round = 0; round < 20; ++round) {
    const std::vector<pid_t> pids = find_marked_processes(marker);
    if (pids.empty()) return;
    for (const pid_t pid : pids) kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void remove_shared_memory(const fs::path& run) {
  const std::string prefix = "tandem-" + user() + "-" + run.filename().string();
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/dev/shm", error)) {
    std::error_code ignored;
    if (entry.path().filename().string().starts_with(prefix)) fs::remove(entry.path(), ignored);
  }
}

void clear_run(const fs::path& run) {
  kill_marked("TANDEM_RUN_DIR=" + run.string());
  remove_shared_memory(run);
  std::error_code ignored;
  fs::remove_all(run, ignored);
}

bool is_old(const fs::path& folder) {
  std::error_code error;
  const auto written = fs::last_write_time(folder, error);
  return !error && fs::file_time_type::clock::now() - written > kHalfMadeAge;
}

}  // namespace

std::string RunDirectory::default_parent() { return "/tmp/tandem-" + user(); }

RunDirectory RunDirectory::create(const std::string& parent) {
  SplitMix64 rng(random_seed());
  for (int tries = 0; tries < 100; ++tries) {
    if (mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST) {
      throw StartupError(parent + ": can't be made: " + std::strerror(errno));
    }
    check_private(parent);
    char id[17];
    std::snprintf(id, sizeof id, "%016llx", static_cast<unsigned long long>(rng.next()));
    const fs::path half_made = fs::path(parent) / (std::string(kHalfMade) + id);
    // The parent may vanish between the two calls: an ending run removes it when it is empty.
    if (mkdir(half_made.c_str(), 0700) != 0) continue;
    const int lock_fd = take_lock(half_made, O_CREAT);
    const fs::path path = fs::path(parent) / id;
    if (lock_fd < 0 || rename(half_made.c_str(), path.c_str()) != 0 ||
        mkdir((path / "mpi").c_str(), 0700) != 0) {
      throw StartupError(path.string() + ": can't be made: " + std::strerror(errno) +
                         "; is there room in /tmp?");
    }
    return RunDirectory(parent, path.string(), lock_fd);
  }
  throw StartupError(parent + ": no folder can be made there; check /tmp");
}

RunDirectory::RunDirectory(std::string parent, std::string path, int lock_fd)
    : parent_(std::move(parent)), path_(std::move(path)), lock_fd_(lock_fd) {}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : parent_(std::move(other.parent_)),
      path_(std::move(other.path_)),
      lock_fd_(std::exchange(other.lock_fd_, -1)) {}

RunDirectory::~RunDirectory() { remove(); }

void RunDirectory::remove() {
  if (lock_fd_ < 0) return;
  clear_run(path_);
  close(std::exchange(lock_fd_, -1));
  rmdir(parent_.c_str());  // fails, rightly, while other runs are there
}

std::vector<std::string> sweep_stale_runs(const std::string& parent) {
  std::vector<std::string> swept;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    const fs::path& run = entry.path();
    std::error_code ignored;
    if (!fs::is_directory(fs::symlink_status(run, ignored))) continue;
    const bool is_half_made = run.filename().string().starts_with(kHalfMade);
    if (is_half_made && !is_old(run)) continue;
    const int lock_fd = take_lock(run, O_CREAT);
    if (lock_fd < 0) continue;
    clear_run(run);
    close(lock_fd);
    swept.push_back(run.string());
  }
  return swept;
}

std::vector<pid_t> find_marked_processes(const std::string& marker) {
  std::vector<pid_t> pids;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t pid = static_cast<pid_t>(std::stol(name));
    if (pid == getpid()) continue;
    std::ifstream stream(entry.path() / "environ", std::ios::binary);
    const std::string environment(std::istreambuf_iterator<char>(stream), {});
    // Entries end with a NUL; the front one stands at the very start.
    const std::string whole = '\0' + environment;
    const std::string wanted = '\0' + marker + '\0';
    if (whole.find(wanted) != std::string::npos) pids.push_back(pid);
  }
  return pids;
}

}  // namespace tandem::supervisor
