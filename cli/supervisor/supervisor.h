#pragma once
// `tandem up`: starts the cluster of one file, keeps it alive, and takes it down.

#include <string>
#include <vector>

#include "configs/schema/config.h"

namespace tandem::supervisor {

struct UpCommand {
  std::string config_file;
  std::vector<std::string> overrides;
  std::string program_folder;  // where tandem-coordinator and tandem-worker are
};

// Runs until a signal or a failure. Prints "ready http://HOST:PORT" on stdout once, all else on
// stderr. Exit status: 0 after SIGINT or SIGTERM and a drain; 1 when the coordinator died (with
// it the cluster ends) or a second signal cut the drain short; 2 when the start failed.
// Requires: a process with one thread; `config` was loaded from the command's file.
int run_up(const UpCommand& command, const config::Config& config);

}  // namespace tandem::supervisor
