// The promises, over many seeds; and that every fault point was reached.
//   sim_cluster_test --seeds=2000 --first=0     (environment: TANDEM_SIM_SEEDS)
//   sim_cluster_test --replay=SEED              prints the timeline of one seed

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "tests/sim/sim_cluster.h"

namespace tandem::sim {
namespace {

uint64_t num_seeds() {
  const char* text = std::getenv("TANDEM_SIM_SEEDS");
  return text == nullptr ? 2000 : std::strtoull(text, nullptr, 10);
}

// Three of four seeds carry a target from the list, in turn.
SeedOptions options_for(uint64_t seed) {
  static const std::vector<FaultPoint> points = all_fault_points();
  SeedOptions options;
  options.seed = seed;
  if (seed % 4 != 0) options.target = points[(seed - seed / 4 - 1) % points.size()];
  return options;
}

void print_replay(uint64_t seed) {
  SeedOptions options = options_for(seed);
  options.trace = true;
  const SeedReport report = run_seed(options);
  std::fputs(report.timeline.c_str(), stdout);
  std::printf("seed %llu (%s): %s\n", static_cast<unsigned long long>(seed),
              report.shape.c_str(), report.ok ? "ok" : report.failure.c_str());
}

TEST(Simulation, KeepsThePromisesOverAllSeeds) {
  if (const char* replay = std::getenv("TANDEM_SIM_REPLAY"); replay != nullptr) {
    print_replay(std::strtoull(replay, nullptr, 10));
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  std::set<FaultPoint> hit;
  uint64_t events = 0, requests = 0, ok = 0, failovers = 0;
  int failures = 0;
  for (uint64_t seed = 0; seed < num_seeds(); ++seed) {
    const SeedReport report = run_seed(options_for(seed));
    hit.insert(report.hit.begin(), report.hit.end());
    events += report.num_events;
    requests += report.num_requests;
    ok += report.num_ok;
    failovers += report.num_failovers;
    if (report.ok) continue;
    ADD_FAILURE() << "seed " << seed << " (" << report.shape << "): " << report.failure
                  << "\n  replay: TANDEM_SIM_REPLAY=" << seed;
    if (++failures == 1) print_replay(seed);
    if (failures >= 5) break;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                                       begin).count();
  std::printf("%llu seeds, %.0f schedules/s, %.0f events per seed, %llu of %llu requests whole, "
              "%llu new attempts\n",
              static_cast<unsigned long long>(num_seeds()),
              static_cast<double>(num_seeds()) / seconds,
              static_cast<double>(events) / static_cast<double>(num_seeds()),
              static_cast<unsigned long long>(ok), static_cast<unsigned long long>(requests),
              static_cast<unsigned long long>(failovers));
  if (num_seeds() < 2000 || failures > 0) return;  // too few seeds to reach every point
  for (const FaultPoint& point : all_fault_points()) {
    // Rare messages: more schedules for this one point.
    for (uint64_t extra = 0; extra < 200 && !hit.contains(point); ++extra) {
      const SeedReport report = run_seed({1000000 + extra, point, false});
      EXPECT_TRUE(report.ok) << report.failure;
      hit.insert(report.hit.begin(), report.hit.end());
    }
    EXPECT_TRUE(hit.contains(point)) << point.message << ": " << point_name(point.point)
                                     << " was never reached";
  }
}

TEST(Simulation, TheSameSeedReplaysExactly) {
  SeedOptions options = options_for(17);
  options.trace = true;
  const SeedReport first = run_seed(options);
  const SeedReport second = run_seed(options);
  EXPECT_EQ(first.timeline, second.timeline);
  EXPECT_GT(first.timeline.size(), 1000u);
}

}  // namespace
}  // namespace tandem::sim
