#include "comm/launch/rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>

namespace tandem::launch {
namespace {
using testing::HasSubstr;

class RankTest : public testing::Test {
 protected:
  void SetUp() override { TearDown(); }
  void TearDown() override {
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("OMPI_COMM_WORLD_SIZE");
  }
  void set(const char* rank, const char* size) {
    setenv("OMPI_COMM_WORLD_RANK", rank, 1);
    setenv("OMPI_COMM_WORLD_SIZE", size, 1);
  }
};

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const StartupError& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST_F(RankTest, IsAloneWithoutMpirun) {
  const Rank rank = current_rank();
  EXPECT_EQ(rank.rank, 0);
  EXPECT_EQ(rank.size, 1);
  EXPECT_FALSE(rank.under_mpirun);
}

TEST_F(RankTest, ReadsWhatMpirunSets) {
  set("2", "4");
  const Rank rank = current_rank();
  EXPECT_EQ(rank.rank, 2);
  EXPECT_EQ(rank.size, 4);
  EXPECT_TRUE(rank.under_mpirun);
}

TEST_F(RankTest, RefusesContradictions) {
  set("4", "4");
  EXPECT_THAT(refusal(current_rank), HasSubstr("contradict"));
  set("x", "4");
  EXPECT_THAT(refusal(current_rank), HasSubstr("OMPI_COMM_WORLD_RANK='x'"));
  unsetenv("OMPI_COMM_WORLD_RANK");
  EXPECT_THAT(refusal(current_rank), HasSubstr("contradict"));
}

TEST_F(RankTest, RefusesShapesItCannotRun) {
  EXPECT_THAT(refusal([] { check_instance_size({0, 2, true}, 2, 1); }),
              HasSubstr("tp x pp must be 1 for now (the configuration says tp 2 x pp 1)"));
  EXPECT_THAT(refusal([] { check_instance_size({0, 2, true}, 1, 1); }),
              HasSubstr("mpirun started 2; use mpirun -n 1"));
  EXPECT_EQ(refusal([] { check_instance_size({0, 1, true}, 1, 1); }), "nothing thrown");
}

}  // namespace
}  // namespace tandem::launch
