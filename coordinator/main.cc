// tandem-coordinator: gateway and router. Errors are one line on stderr and exit status 2.

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "comm/runtime/result.h"
#include "configs/schema/loader.h"
#include "coordinator/daemon/daemon.h"

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  std::string config_file;
  std::vector<std::string> overrides;
  CLI::App app("The coordinator of a Tandem cluster; see `tandem up` for a whole cluster.");
  app.name("tandem-coordinator");
  app.add_option("--config", config_file, "The cluster's YAML file")->required();
  app.add_option("--set", overrides, "KEY=VALUE over the file; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "tandem-coordinator: %s; see tandem-coordinator --help\n", error.what());
    return 2;
  }
  try {
    const auto config = tandem::config::load_config(config_file, overrides);
    if (!config.ok()) throw tandem::StartupError(config.error().message);
    tandem::coordinator::run_daemon(*config);
    return 0;
  } catch (const tandem::StartupError& error) {
    std::fprintf(stderr, "tandem-coordinator: %s\n", error.what());
    return 2;
  }
}
