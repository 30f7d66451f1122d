// Clients that leave, stall or share names; latencies and counters.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fixture.h"

namespace tandem::gateway {
namespace {

using request::FinishReason;

constexpr const char* kStreamBody = R"({"prompt":"hi","max_tokens":200,"stream":true})";
constexpr const char* kWholeBody = R"({"prompt":"hi","max_tokens":200})";

TEST(Client, LeavingWhileQueuedCancels) {
  for (const char* body : {kStreamBody, kWholeBody}) {
    GatewayFixture fixture;
    RawClient client(fixture.port());
    client.post("/v1/completions", body);
    ASSERT_TRUE(fixture.eventually([&] { return fixture.service.submitted.size() == 1; }));
    client.close();
    EXPECT_TRUE(fixture.eventually([&] { return fixture.service.cancelled.size() == 1; }));
    fixture.on_loop([&] { EXPECT_EQ(fixture.service.cancelled[0].delivered, 0u); });
    EXPECT_EQ(fixture.num_calls(), 0u);
  }
}

TEST(Client, LeavingMidStreamCancelsWithWhatWasHandedOver) {
  GatewayFixture fixture;
  RawClient client(fixture.port());
  client.post("/v1/completions", kStreamBody);
  ASSERT_TRUE(fixture.eventually([&] { return fixture.service.submitted.size() == 1; }));
  fixture.on_loop([&] { fixture.service.emit(bytes_of("abc")); });
  ASSERT_TRUE(client.read_until("\"text\":\"c\""));
  client.close();
  EXPECT_TRUE(fixture.eventually([&] { return fixture.service.cancelled.size() == 1; }));
  fixture.on_loop([&] { EXPECT_EQ(fixture.service.cancelled[0].delivered, 3u); });
  EXPECT_EQ(fixture.sample("vllm:request_success_total{finished_reason=\"abort\"}"), 1);
}

TEST(Client, LeavingAWholeAnswerCancelsWithNothingDelivered) {
  GatewayFixture fixture;
  RawClient client(fixture.port());
  client.post("/v1/completions", kWholeBody);
  ASSERT_TRUE(fixture.eventually([&] { return fixture.service.submitted.size() == 1; }));
  fixture.on_loop([&] { fixture.service.emit(bytes_of("abc")); });
  client.close();
  EXPECT_TRUE(fixture.eventually([&] { return fixture.service.cancelled.size() == 1; }));
  fixture.on_loop([&] { EXPECT_EQ(fixture.service.cancelled[0].delivered, 0u); });
}

TEST(Client, ManyWhoLeaveLeaveNothingBehind) {
  GatewayFixture fixture;
  for (int i = 0; i < 50; ++i) {
    RawClient client(fixture.port());
    client.post("/v1/completions", i % 2 ? kStreamBody : kWholeBody);
    if (i % 3 != 0) {
      ASSERT_TRUE(fixture.eventually(
          [&] { return fixture.service.submitted.size() == static_cast<size_t>(i) + 1; }));
    } else {
      client.close();
      fixture.eventually([&] { return fixture.service.submitted.size() > static_cast<size_t>(i); });
    }
  }
  EXPECT_TRUE(fixture.eventually([&] {
    return fixture.service.cancelled.size() == fixture.service.submitted.size();
  }));
  EXPECT_EQ(fixture.num_calls(), 0u);
}

TEST(Client, ASlowReaderGetsEverythingInFewerChunks) {
  constexpr size_t kTokens = 100'000;
  GatewayFixture fixture({.max_context = 200'000, .max_pending_bytes = 4096});
  RawClient client(fixture.port(), 4096);
  client.post("/v1/completions",
              R"({"prompt":"hi","max_tokens":150000,"stream":true,"return_token_ids":true})");
  ASSERT_TRUE(fixture.eventually([&] { return fixture.service.submitted.size() == 1; }));
  fixture.on_loop([&] {
    fixture.service.emit(std::vector<uint32_t>(kTokens, 'x'));
    fixture.service.end(FinishReason::kLength);
  });
  EXPECT_EQ(fixture.num_calls(), 1u);   // the socket can't have taken all of it
  const RawResponse response = client.read_response();
  ASSERT_TRUE(response.whole);
  size_t text = 0;
  size_t ids = 0;
  const std::vector<std::string> events = sse_events(response.body);
  for (const std::string& event : events) {
    if (event == "[DONE]") continue;
    const Json choice = strict_json(event).at("choices").at(0);
    text += choice.at("text").get<std::string>().size();
    ids += choice.at("token_ids").size();
  }
  EXPECT_EQ(text, kTokens);
  EXPECT_EQ(ids, kTokens);
  EXPECT_LT(events.size(), kTokens / 2);
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST(Client, AStalledReaderIsCancelledAndOthersGoOn) {
  GatewayFixture fixture({.max_context = 10'000'000,
                          .max_pending_bytes = 4096,
                          .client_stall = std::chrono::milliseconds(300)});
  RawClient stalled(fixture.port(), 4096);
  stalled.post("/v1/completions", R"({"prompt":"hi","max_tokens":9000000,"stream":true})");
  ASSERT_TRUE(fixture.eventually([&] { return fixture.service.submitted.size() == 1; }));
  // One step of much text after the other, for as long as the request is wanted.
  const bool cancelled = fixture.eventually([&] {
    fixture.service.emit(std::vector<uint32_t>(50'000, 'x'), 50'000);
    return fixture.service.cancelled.size() == 1;
  });
  EXPECT_TRUE(cancelled);
  EXPECT_EQ(fixture.num_calls(), 0u);
  fixture.script(bytes_of("ok"), FinishReason::kLength);
  EXPECT_EQ(fixture.post("/v1/completions", R"({"prompt":"hi"})").status, 200);
}

TEST(Client, EqualRequestIdsNeverMeet) {
  GatewayFixture fixture;
  RawClient first(fixture.port());
  RawClient second(fixture.port());
  first.post("/v1/completions", kStreamBody, "X-Request-Id: same\r\n");
  ASSERT_TRUE(fixture.eventually([&] { return fixture.service.submitted.size() == 1; }));
  second.post("/v1/completions", kStreamBody, "X-Request-Id: same\r\n");
  ASSERT_TRUE(fixture.eventually([&] { return fixture.service.submitted.size() == 2; }));
  first.close();
  EXPECT_TRUE(fixture.eventually([&] { return fixture.service.cancelled.size() == 1; }));
  fixture.on_loop([&] {
    EXPECT_EQ(fixture.service.cancelled[0].id.value, 1u);
    EXPECT_EQ(fixture.service.submitted[1].request.client_id, "same");
    fixture.service.emit(bytes_of("ok"));
    fixture.service.end(FinishReason::kLength);
  });
  const RawResponse response = second.read_response();
  EXPECT_TRUE(response.whole);
  EXPECT_EQ(response.headers.at("x-request-id"), "same");
}

TEST(Client, RequestIdsAreCappedAndMadeSafe) {
  EXPECT_EQ(sanitised_request_id(std::string(5000, 'a')), std::string(128, 'a'));
  EXPECT_EQ(sanitised_request_id("a b\r\n\x01\"c\xff"), "abc");
  GatewayFixture fixture;
  const RawResponse echoed =
      fixture.post("/v1/completions", "{", "X-Request-Id: " + std::string(5000, 'z') + "\r\n");
  EXPECT_EQ(echoed.headers.at("x-request-id"), std::string(128, 'z'));
  EXPECT_EQ(fixture.get("/health").headers.at("x-request-id").substr(0, 4), "req-");
}

TEST(Client, LatenciesAreCountedOncePerRequest) {
  GatewayFixture fixture;
  fixture.script(bytes_of("abcde"), FinishReason::kLength);
  fixture.post("/v1/completions", R"({"prompt":"hi","stream":true})");
  fixture.post("/v1/completions", R"({"prompt":"hi"})");
  EXPECT_EQ(fixture.sample("vllm:time_to_first_token_seconds_count"), 2);
  EXPECT_EQ(fixture.sample("vllm:inter_token_latency_seconds_count"), 8);
  EXPECT_EQ(fixture.sample("vllm:e2e_request_latency_seconds_count"), 2);
  EXPECT_EQ(fixture.sample("vllm:request_success_total{finished_reason=\"length\"}"), 2);
}

TEST(Client, LeavingBeforeTheFirstTokenObservesNoLatency) {
  GatewayFixture fixture;
  RawClient client(fixture.port());
  client.post("/v1/completions", kStreamBody);
  ASSERT_TRUE(fixture.eventually([&] { return fixture.service.submitted.size() == 1; }));
  client.close();
  ASSERT_TRUE(fixture.eventually([&] { return fixture.service.cancelled.size() == 1; }));
  EXPECT_EQ(fixture.sample("vllm:time_to_first_token_seconds_count"), 0);
  EXPECT_EQ(fixture.sample("vllm:e2e_request_latency_seconds_count"), 0);
}

TEST(Client, RandomNamesAddNoSeries) {
  GatewayFixture fixture;
  const auto num_series = [&] {
    const std::string body = fixture.get("/metrics").body;
    return std::count(body.begin(), body.end(), '\n');
  };
  fixture.get("/x");
  const auto before = num_series();
  for (int i = 0; i < 50; ++i) {
    fixture.get("/path" + std::to_string(i));
    fixture.post("/v1/completions",
                 R"({"prompt":"x","model":"m)" + std::to_string(i) + "\"}");
  }
  EXPECT_EQ(num_series(), before);
}

}  // namespace
}  // namespace tandem::gateway
