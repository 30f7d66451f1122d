#pragma once
// The command lines of the cluster's processes (pure).

#include <string>
#include <vector>

namespace tandem::supervisor {

struct Command {
  std::vector<std::string> arguments;    // [0] is the program, looked up in PATH if without '/'
  std::vector<std::string> environment;  // "NAME=value", added to this process's own
};

struct LaunchSettings {
  std::string program_folder;          // where tandem-coordinator and tandem-worker are
  std::string config_file;
  std::vector<std::string> overrides;  // --set
  std::string run_folder;              // files of this run
  std::string marker;                  // "TANDEM_RUN_DIR=…": tells our processes from others
  bool is_root = false;
};

Command coordinator_command(const LaunchSettings& settings);

// One mpirun per instance: it dies as a unit and alone. control_url: the bound endpoint.
Command worker_command(const LaunchSettings& settings, const std::string& instance,
                       const std::string& control_url);

}  // namespace tandem::supervisor
