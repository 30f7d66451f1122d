#include "configs/schema/reference.h"

#include <gtest/gtest.h>

#include <set>

#include "configs/schema/loader.h"

namespace tandem::config {
namespace {

TEST(Reference, NamesEveryKeyWithDefaultAndRange) {
  const std::string text = reference_text();
  std::set<std::string> keys;
  for (const KnobInfo& knob : list_knobs()) {
    EXPECT_TRUE(keys.insert(knob.key).second) << knob.key << " is in the table twice";
    EXPECT_NE(text.find("\n" + knob.key + "\n    " + knob.type + "; default: "),
              std::string::npos) << knob.key;
    EXPECT_FALSE(knob.range.empty()) << knob.key;
    EXPECT_FALSE(knob.default_value.empty()) << knob.key;
    EXPECT_TRUE(knob.meaning.ends_with(".")) << knob.key;
  }
  EXPECT_TRUE(keys.contains("deadlines.client_stall"));
  EXPECT_TRUE(keys.contains("pools.*.prefill_chunk"));
}

TEST(Reference, ShowsTheDefaultsOfTheStructs) {
  const auto default_of = [](const std::string& key) {
    for (const KnobInfo& knob : list_knobs()) {
      if (knob.key == key) return knob.default_value;
    }
    return std::string("no such key");
  };
  EXPECT_EQ(default_of("kv.block_size"), "32");
  EXPECT_EQ(default_of("pools.*.kv_memory"), "512MiB");
  EXPECT_EQ(default_of("deadlines.heartbeat"), "200ms");
  EXPECT_EQ(default_of("deadlines.stalled_factor"), "3");
  EXPECT_EQ(default_of("coordinator.control"), "\"tcp://127.0.0.1:5700\"");
  EXPECT_EQ(default_of("model.path"), "(required)");
}

// resolved text -> Config -> resolved text is a fixed point, so nothing is lost or misspelt.
TEST(Reference, ResolvedTextLoadsToTheSameConfiguration) {
  const char text[] =
      "model: {path: /m/t.gguf, alias: 'a\"b\\c', max_context: 512}\n"
      "pools: {prefill: {threads: 2, kv_memory: 3MiB}, decode: {ops: avx2}}\n"
      "kv: {dtype: f32}\n"
      "deadlines: {resend: 250ms, drain: 90s, stalled_factor: 2.25}\n"
      "testing: {slow_link: 1MiB}\n";
  const Result<Config> config = parse_config(text, "a.yaml", {});
  ASSERT_TRUE(config.ok()) << config.error().message;
  const std::string once = resolved_text(*config);
  const Result<Config> again = parse_config(once, "b.yaml", {});
  ASSERT_TRUE(again.ok()) << again.error().message << "\n" << once;
  EXPECT_EQ(resolved_text(*again), once);
  EXPECT_EQ(again->model.alias, "a\"b\\c");
  EXPECT_EQ(again->pools.decode.ops, Ops::kAvx2);
  EXPECT_EQ(again->deadlines.drain, std::chrono::seconds(90));
  EXPECT_EQ(again->pools.mixed.instances, 0);
}

}  // namespace
}  // namespace tandem::config
