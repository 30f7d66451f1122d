#pragma once
// The folder of one run, /tmp/tandem-UID/ID: a lock that says the run lives, and whatever its
// processes would leave behind if they were killed.

#include <sys/types.h>

#include <string>
#include <vector>

#include "comm/runtime/result.h"

namespace tandem::supervisor {

// Owned by the supervisor. The lock is held by an open file, so it ends with the process, however
// that dies.
class RunDirectory {
 public:
  // "/tmp/tandem-UID".
  static std::string default_parent();

  // Makes a new folder under `parent` and locks it. Throws StartupError when `parent` is not a
  // private folder of this user.
  static RunDirectory create(const std::string& parent);

  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&&) = delete;
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;
  ~RunDirectory();

  const std::string& path() const { return path_; }
  // Environment entry of every process of this run.
  std::string marker() const { return "TANDEM_RUN_DIR=" + path_; }

  // Kills what still carries the marker, removes the run's shared memory files (/dev/shm/
  // tandem-UID-ID*) and the folder, and the parent if it is empty. Called by the destructor.
  void remove();

 private:
  RunDirectory(std::string parent, std::string path, int lock_fd);

  std::string parent_;
  std::string path_;
  int lock_fd_;
};

// Clears what earlier runs under `parent` left: every folder that nobody holds locked. Returns
// their paths. Only processes that carry the folder's marker in their environment are killed.
std::vector<std::string> sweep_stale_runs(const std::string& parent);

// Processes of this user whose environment has `marker`, this one excluded.
std::vector<pid_t> find_marked_processes(const std::string& marker);

}  // namespace tandem::supervisor
