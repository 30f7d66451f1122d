#include "comm/telemetry/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "comm/telemetry/coordinator_metrics.h"
#include "comm/telemetry/worker_metrics.h"

namespace tandem::telemetry {
namespace {
using testing::HasSubstr;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Name of the family a sample line belongs to: the name without labels and histogram suffixes.
std::string family_of(const std::string& line) {
  std::string name = line.substr(0, line.find_first_of("{ "));
  for (const char* suffix : {"_bucket", "_sum", "_count"}) {
    if (name.ends_with(suffix)) return name.substr(0, name.size() - std::string(suffix).size());
  }
  return name;
}

// What a linter would say about the text: families with one HELP and TYPE, unique series, counters
// in _total.
void expect_clean(const std::string& text) {
  std::set<std::string> helps, types, series;
  for (const std::string& line : lines_of(text)) {
    std::istringstream words(line);
    std::string hash, kind, name, type;
    if (line.starts_with("# ")) {
      words >> hash >> kind >> name >> type;
      if (kind == "HELP") {
        EXPECT_TRUE(helps.insert(name).second) << line;
      }
      if (kind != "TYPE") continue;
      EXPECT_TRUE(types.insert(name).second) << line;
      EXPECT_EQ(type == "counter", name.ends_with("_total")) << line;
    } else {
      EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line;
      EXPECT_TRUE(types.contains(family_of(line))) << line;
    }
  }
  EXPECT_EQ(helps, types);
}

TEST(Metrics, CountersStartExportedAsZero) {
  MetricsRegistry registry;
  Counter counter = registry.counter("tandem_things_total", "Things.");
  EXPECT_THAT(registry.text(), HasSubstr("\ntandem_things_total 0\n"));
  counter.add();
  counter.add(2);
  EXPECT_THAT(registry.text(), HasSubstr("\ntandem_things_total 3\n"));
  EXPECT_EQ(counter.value(), 3);
}

TEST(Metrics, HistogramBucketsAreCumulativeAndReachLongWaits) {
  MetricsRegistry registry;
  Histogram histogram = registry.histogram("wait_seconds", "Waits.", latency_buckets());
  for (const double wait : {0.2, 2.0, 150.0}) histogram.observe(wait);
  const std::string text = registry.text();
  EXPECT_THAT(text, HasSubstr("wait_seconds_bucket{le=\"0.25\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("wait_seconds_bucket{le=\"2.5\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("wait_seconds_bucket{le=\"160\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("wait_seconds_bucket{le=\"+Inf\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("wait_seconds_count 3\n"));
  EXPECT_GE(latency_buckets().back(), 480);
  EXPECT_GE(fine_latency_buckets().back(), 480);
}

TEST(Metrics, OneSeriesPerEnumerator) {
  MetricsRegistry registry;
  auto by = registry.counter_by<DiscardReason>("lost_total", "Lost.", "reason",
                                               {"stop", "cancel", "replay", "fenced"});
  by[DiscardReason::kReplay].add(4);
  EXPECT_THAT(registry.text(), HasSubstr("lost_total{reason=\"replay\"} 4\n"));
  EXPECT_THAT(registry.text(), HasSubstr("lost_total{reason=\"fenced\"} 0\n"));
}

TEST(MetricsDeathTest, RefusesWrongUse) {
  MetricsRegistry registry;
  EXPECT_DEATH(registry.counter("things", "No suffix."), "CHECK failed");
  registry.counter("a_total", "A.", {{"x", "1"}});
  EXPECT_DEATH(registry.counter("a_total", "A.", {{"y", "1"}}), "CHECK failed");
  EXPECT_DEATH(registry.histogram("h", "H.", {2, 1}), "CHECK failed");
  EXPECT_DEATH(Counter().add(), "CHECK failed");
}

TEST(CoordinatorMetrics, ExportsItsFamiliesCleanly) {
  MetricsRegistry registry;
  CoordinatorMetrics metrics(registry, {"prefill-0", "decode-0"});
  metrics.instances.at("decode-0").set_state(InstanceState::kReady);
  metrics.instances.at("decode-0").kv_blocks[KvBlockState::kFree].set(9);
  metrics.tokens_discarded[DiscardReason::kFenced].add(2);
  metrics.count_http(HttpRoute::kChatCompletions, 200);
  metrics.count_http(HttpRoute::kOther, 404);
  const std::string text = registry.text();
  expect_clean(text);
  for (const char* line :
       {"tandem_instance_kv_blocks{instance=\"decode-0\",state=\"free\"} 9\n",
        "tandem_instance_state{instance=\"decode-0\",state=\"ready\"} 1\n",
        "tandem_instance_state{instance=\"decode-0\",state=\"dead\"} 0\n",
        "tandem_tokens_discarded_total{reason=\"fenced\"} 2\n", "tandem_tokens_delivered_total 0\n",
        "tandem_http_requests_total{code=\"2xx\",route=\"chat_completions\"} 1\n",
        "tandem_http_requests_total{code=\"4xx\",route=\"other\"} 1\n",
        "vllm:request_success_total{finished_reason=\"stop\"} 0\n",
        "vllm:time_to_first_token_seconds_count 0\n", "vllm:num_requests_waiting 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(WorkerMetrics, ExportsItsFamiliesCleanly) {
  MetricsRegistry registry;
  WorkerMetrics metrics(registry);
  metrics.prompt_tokens_by_source[PromptSource::kExternalKvTransfer].add(64);
  metrics.kv_transfer_bytes[TransferDirection::kReceived].add(23040);
  metrics.kv_transfer_hidden_share.observe(0.75);
  const std::string text = registry.text();
  expect_clean(text);
  for (const char* line :
       {"vllm:prompt_tokens_by_source_total{source=\"external_kv_transfer\"} 64\n",
        "vllm:prompt_tokens_by_source_total{source=\"local_compute\"} 0\n",
        "tandem_kv_transfer_bytes_total{direction=\"received\"} 23040\n",
        "tandem_kv_transfer_hidden_share_count 1\n", "tandem_tokens_generated_total 0\n",
        "vllm:kv_cache_usage_perc 0\n", "tandem_step_age_seconds 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

}  // namespace
}  // namespace tandem::telemetry
