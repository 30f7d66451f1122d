#include "cli/supervisor/run_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "cli/supervisor/child.h"

namespace tandem::supervisor {
namespace {

namespace fs = std::filesystem;

class RunDirectoryTest : public testing::Test {
 protected:
  RunDirectoryTest() {
    char name[] = "/tmp/tandem-test-XXXXXX";
    base_ = mkdtemp(name);
    parent_ = base_ + "/runs";
  }
  ~RunDirectoryTest() override { fs::remove_all(base_); }

  // What a killed run leaves: a folder whose lock nobody holds.
  std::string stale_run() {
    const std::string path = parent_ + "/00000000000000aa";
    fs::create_directories(path + "/mpi/deep");
    fs::permissions(parent_, fs::perms::owner_all);
    std::ofstream(path + "/lock") << "";
    return path;
  }

  std::string base_;
  std::string parent_;
};

TEST_F(RunDirectoryTest, LeavesNothingBehind) {
  std::string path;
  {
    RunDirectory run = RunDirectory::create(parent_);
    path = run.path();
    EXPECT_TRUE(fs::is_directory(path + "/mpi"));
    EXPECT_EQ(run.marker(), "TANDEM_RUN_DIR=" + path);
    EXPECT_EQ(fs::status(parent_).permissions(), fs::perms::owner_all);
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(fs::exists(parent_));
}

TEST_F(RunDirectoryTest, RunsDoNotDisturbEachOther) {
  RunDirectory first = RunDirectory::create(parent_);
  RunDirectory second = RunDirectory::create(parent_);
  EXPECT_NE(first.path(), second.path());
  EXPECT_TRUE(sweep_stale_runs(parent_).empty());
  first.remove();
  EXPECT_TRUE(fs::exists(second.path()));
}

TEST_F(RunDirectoryTest, SweepsWhatNobodyHolds) {
  const std::string stale = stale_run();
  const RunDirectory live = RunDirectory::create(parent_);
  EXPECT_EQ(sweep_stale_runs(parent_), std::vector<std::string>{stale});
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(live.path()));
}

TEST_F(RunDirectoryTest, SweepKillsOnlyMarkedProcesses) {
  const std::string stale = stale_run();
  Result<Child> marked = Child::start({{"sleep", "60"}, {"TANDEM_RUN_DIR=" + stale}});
  Result<Child> other = Child::start({{"sleep", "60"}, {"TANDEM_RUN_DIR=" + stale + "b"}});
  ASSERT_TRUE(marked.ok());
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(find_marked_processes("TANDEM_RUN_DIR=" + stale), std::vector<pid_t>{marked->pid()});
  EXPECT_EQ(sweep_stale_runs(parent_).size(), 1u);
  EXPECT_EQ(marked->poll_exit(), 128 + SIGKILL);
  EXPECT_FALSE(other->poll_exit().has_value());
  other->signal(SIGKILL);
  while (!other->poll_exit()) usleep(1000);
}

TEST_F(RunDirectoryTest, SweepRemovesSharedMemoryOfTheRun) {
  const std::string stale = stale_run();
  const std::string start = "/dev/shm/tandem-" + std::to_string(getuid()) + "-";
  const std::string left = start + "00000000000000aa-ring";
  const std::string foreign = start + "00000000000000ab-ring";
  std::ofstream(left) << "x";
  std::ofstream(foreign) << "x";
  sweep_stale_runs(parent_);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(foreign));
  fs::remove(foreign);
}

TEST_F(RunDirectoryTest, RefusesAFolderThatOthersCanEnter) {
  fs::create_directories(parent_);
  fs::permissions(parent_, fs::perms::all);
  EXPECT_THROW((void)RunDirectory::create(parent_), StartupError);
}

TEST_F(RunDirectoryTest, RefusesASymbolicLink) {
  fs::create_directories(base_ + "/elsewhere");
  fs::create_symlink(base_ + "/elsewhere", parent_);
  EXPECT_THROW((void)RunDirectory::create(parent_), StartupError);
}

TEST_F(RunDirectoryTest, SweepOfNothingIsQuiet) {
  EXPECT_TRUE(sweep_stale_runs(parent_).empty());
}

}  // namespace
}  // namespace tandem::supervisor
