// tandem-worker: one rank of one instance. Errors are one line on stderr and exit status 2.

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "comm/launch/process.h"
#include "comm/launch/rank.h"
#include "comm/runtime/result.h"
#include "configs/schema/loader.h"
#include "worker/worker.h"

namespace {

using tandem::StartupError;

struct Arguments {
  std::string config_file;
  std::string instance;
  std::vector<std::string> overrides;
};

int run(const Arguments& arguments) {
  const tandem::launch::Rank rank = tandem::launch::current_rank();
  // A worker under mpirun ends with it. One started by hand belongs to whoever started it.
  if (rank.under_mpirun) tandem::launch::die_with_parent();
  const auto config = tandem::config::load_config(arguments.config_file, arguments.overrides);
  if (!config.ok()) throw StartupError(config.error().message);
  const auto name = tandem::config::find_instance(*config, arguments.instance);
  if (!name.ok()) throw StartupError("--instance: " + name.error().message);
  const tandem::config::PoolConfig& pool = config->pools.of(name->role);
  tandem::launch::check_instance_size(rank, pool.tp, pool.pp);
  if (config->coordinator.control.port == 0) {
    throw StartupError("coordinator.control: a worker can't guess a free port; pass what the "
                       "coordinator printed: --set coordinator.control=tcp://HOST:PORT");
  }
  return tandem::worker::run_worker(*config, arguments.instance, rank);
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  Arguments arguments;
  CLI::App app("One rank of a Tandem instance; see `tandem up` for a whole cluster.");
  app.name("tandem-worker");
  app.add_option("--config", arguments.config_file, "The cluster's YAML file")->required();
  app.add_option("--instance", arguments.instance, "Name of the instance, e.g. decode-0")
      ->required();
  app.add_option("--set", arguments.overrides, "KEY=VALUE over the file; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "tandem-worker: %s; see tandem-worker --help\n", error.what());
    return 2;
  }
  try {
    return run(arguments);
  } catch (const StartupError& error) {
    std::fprintf(stderr, "tandem-worker: %s: %s\n", arguments.instance.c_str(), error.what());
    return 2;
  }
}
