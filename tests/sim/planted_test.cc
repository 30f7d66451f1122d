// The measure of the simulation's worth: it finds every bug that is planted on purpose.

#include <gtest/gtest.h>

#include "comm/runtime/planted.h"
#include "tests/sim/sim_cluster.h"

namespace tandem::sim {
namespace {

constexpr uint64_t kMaxSeeds = 500;

class PlantedBug : public ::testing::TestWithParam<int> {
 protected:
  ~PlantedBug() override { planted_bug() = -1; }
};

TEST_P(PlantedBug, IsFoundWithin500Seeds) {
  planted_bug() = GetParam();
  for (uint64_t seed = 0; seed < kMaxSeeds; ++seed) {
    SeedOptions options;
    options.seed = seed;
    const SeedReport report = run_seed(options);
    if (report.ok) continue;
    std::printf("bug %d found by seed %llu: %s\n", GetParam(),
                static_cast<unsigned long long>(seed), report.failure.c_str());
    return;
  }
  FAIL() << "bug " << GetParam() << " was not found in " << kMaxSeeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(All, PlantedBug, ::testing::Range(0, kNumBugs));

}  // namespace
}  // namespace tandem::sim
