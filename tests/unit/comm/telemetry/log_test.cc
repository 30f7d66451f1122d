#include "comm/telemetry/log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace tandem::telemetry {
namespace {

struct Captured {
  std::vector<std::string> lines;

  LoggerOptions options(LogLevel level = LogLevel::kDebug) {
    return {.instance = "decode-0",
            .level = level,
            .sink = [this](std::string_view line) { lines.emplace_back(line); },
            .timestamp = [] { return std::string("12.5"); }};
  }
};

TEST(Logger, WritesOneKeyValueLinePerEvent) {
  Captured captured;
  Logger log(captured.options());
  log.info("grant_made", {{"tokens", 17}, {"share", 0.25}, {"ok", true}, {"to", "prefill-1"},
                          {"grant", GrantId(7)}, {"big", uint64_t{18446744073709551615u}}});
  ASSERT_EQ(captured.lines.size(), 1u);
  EXPECT_EQ(captured.lines[0],
            "ts=12.5 level=info instance=decode-0 event=grant_made tokens=17 share=0.25 ok=true "
            "to=prefill-1 grant=7 big=18446744073709551615");
}

TEST(Logger, QuotesTextThatWouldBreakTheLine) {
  Captured captured;
  Logger log(captured.options());
  log.error("bad", {{"a", "two words"}, {"b", "x\nlevel=error"}, {"c", "q\"\\"}, {"d", ""},
                    {"e", std::string_view("\x01", 1)}});
  EXPECT_EQ(captured.lines.at(0),
            "ts=12.5 level=error instance=decode-0 event=bad a=\"two words\" "
            "b=\"x\\nlevel=error\" c=\"q\\\"\\\\\" d=\"\" e=\"\\x01\"");
}

TEST(Logger, DropsEventsBelowItsLevel) {
  Captured captured;
  Logger log(captured.options(LogLevel::kWarning));
  log.debug("no");
  log.info("no");
  log.warning("yes");
  log.error("yes");
  EXPECT_EQ(captured.lines.size(), 2u);
  EXPECT_FALSE(log.enabled(LogLevel::kInfo));
}

TEST(Logger, KeepsLinesWholeAcrossThreads) {
  Captured captured;
  Logger log(captured.options());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&log, t] {
      for (int i = 0; i < 50; ++i) log.info("tick", {{"thread", t}, {"i", i}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(captured.lines.size(), 200u);
  for (const std::string& line : captured.lines) {
    EXPECT_TRUE(line.starts_with("ts=12.5 level=info instance=decode-0 event=tick thread="))
        << line;
  }
}

TEST(Logger, StampsLinesInUtcByDefault) {
  std::string seen;
  Logger log({.instance = "x", .sink = [&](std::string_view line) { seen = line; }});
  log.info("e");
  // ts=2026-01-02T03:04:05.678901Z …
  ASSERT_GT(seen.size(), 31u);
  EXPECT_EQ(seen[13], 'T');
  EXPECT_EQ(seen.substr(29, 7), "Z level");
}

TEST(LogLevel, RefusesUnknownWords) {
  EXPECT_EQ(*parse_log_level("warning"), LogLevel::kWarning);
  const auto bad = parse_log_level("loud");
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message.find("'loud'"), std::string::npos);
}

}  // namespace
}  // namespace tandem::telemetry
