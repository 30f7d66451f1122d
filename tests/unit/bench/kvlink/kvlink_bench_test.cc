#include "bench/kvlink/kvlink_bench.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/kvlink/report.h"

namespace tandem::bench {
namespace {

TEST(KvLinkBench, MeasuresAndReports) {
  const KvLinkBenchOptions options{.block_bytes = 4096, .blocks = 3, .grants = 2, .repeat = 1};
  const KvLinkBenchResult result = run_kvlink_bench(options);
  EXPECT_GT(result.link_bytes_per_s, 0);
  EXPECT_GT(result.memcpy_bytes_per_s, 0);
  EXPECT_GT(result.first_part_s, 0);
  const auto json = nlohmann::json::parse(to_json(options, result));
  EXPECT_EQ(json.at("link"), "tcp");
  EXPECT_EQ(json.at("grants"), 2);
  EXPECT_GT(json.at("percent_of_memcpy"), 0);
  EXPECT_NE(to_text(options, result).find("GB/s"), std::string::npos);
}

}  // namespace
}  // namespace tandem::bench
