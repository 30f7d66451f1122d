#include "cli/supervisor/command_lines.h"

namespace tandem::supervisor {
namespace {

void append_config(std::vector<std::string>& arguments, const LaunchSettings& settings) {
  arguments.insert(arguments.end(), {"--config", settings.config_file});
  for (const std::string& text : settings.overrides) {
    arguments.insert(arguments.end(), {"--set", text});
  }
}

}  // namespace

Command coordinator_command(const LaunchSettings& settings) {
  Command command;
  command.arguments = {settings.program_folder + "/tandem-coordinator"};
  append_config(command.arguments, settings);
  command.environment = {settings.marker};
  return command;
}

Command worker_command(const LaunchSettings& settings, const std::string& instance,
                       const std::string& control_url) {
  const std::string mpi_folder = settings.run_folder + "/mpi";
  Command command;
  command.arguments = {
      "mpirun", "-q", "-n", "1",
      // Several jobs share the cores: no binding, and waiting ranks yield.
      "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
      "--mca", "pml", "ob1", "--mca", "btl", "vader,self",
      // Everything runs on this machine, so no ssh is needed (mpirun fails where there is none).
      "--mca", "plm", "isolated",
      // One rank's death ends the others at once.
      "--mca", "odls_base_sigkill_timeout", "0",
      // Everything a killed job leaves behind lies in the run folder.
      "--mca", "orte_tmpdir_base", mpi_folder, "--mca", "btl_vader_backing_directory", mpi_folder,
      settings.program_folder + "/tandem-worker"};
  append_config(command.arguments, settings);
  command.arguments.insert(command.arguments.end(), {"--set", "coordinator.control=" + control_url,
                                                     "--instance", instance});
  command.environment = {settings.marker};
  if (settings.is_root) {
    command.environment.push_back("OMPI_ALLOW_RUN_AS_ROOT=1");
    command.environment.push_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
  }
  return command;
}

}  // namespace tandem::supervisor
