#include "cli/supervisor/command_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::supervisor {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

LaunchSettings settings() {
  return {"/bin", "c.yaml", {"kv.dtype=f32"}, "/run", "TANDEM_RUN_DIR=/run", false};
}

TEST(CommandLines, CoordinatorGetsTheFileAndTheOverrides) {
  const Command command = coordinator_command(settings());
  EXPECT_THAT(command.arguments, ElementsAre("/bin/tandem-coordinator", "--config", "c.yaml",
                                             "--set", "kv.dtype=f32"));
  EXPECT_THAT(command.environment, ElementsAre("TANDEM_RUN_DIR=/run"));
}

// The bound endpoint stands last: a later --set wins over the user's port 0.
TEST(CommandLines, WorkerRunsUnderItsOwnMpirun) {
  const Command command = worker_command(settings(), "decode-0", "tcp://127.0.0.1:9");
  EXPECT_THAT(
      command.arguments,
      ElementsAre("mpirun", "-q", "-n", "1", "--oversubscribe", "--bind-to", "none", "--mca",
                  "mpi_yield_when_idle", "1", "--mca", "pml", "ob1", "--mca", "btl",
                  "vader,self", "--mca", "plm", "isolated", "--mca", "odls_base_sigkill_timeout", "0", "--mca",
                  "orte_tmpdir_base", "/run/mpi", "--mca", "btl_vader_backing_directory",
                  "/run/mpi", "/bin/tandem-worker", "--config", "c.yaml", "--set", "kv.dtype=f32",
                  "--set", "coordinator.control=tcp://127.0.0.1:9", "--instance", "decode-0"));
  EXPECT_THAT(command.environment, Not(Contains("OMPI_ALLOW_RUN_AS_ROOT=1")));
}

TEST(CommandLines, RootIsAllowedOnlyForRoot) {
  LaunchSettings as_root = settings();
  as_root.is_root = true;
  EXPECT_THAT(worker_command(as_root, "decode-0", "tcp://127.0.0.1:9").environment,
              ElementsAre("TANDEM_RUN_DIR=/run", "OMPI_ALLOW_RUN_AS_ROOT=1",
                          "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"));
}

}  // namespace
}  // namespace tandem::supervisor
