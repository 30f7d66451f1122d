// Streams and whole answers over a real socket: text, stops, usage, ids, endings.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fixture.h"

namespace tandem::gateway {
namespace {

using request::FinishReason;

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kCompletions = "/v1/completions";

std::string chat_body(const std::string& extra = {}) {
  return R"({"messages":[{"role":"user","content":"hi"}])" + (extra.empty() ? "" : "," + extra) +
         "}";
}

std::string completion_body(const std::string& extra = {}) {
  return R"({"prompt":"hi")" + (extra.empty() ? "" : "," + extra) + "}";
}

struct Stream {
  std::vector<Json> chunks;   // without [DONE]
  bool done = false;
  std::string text;           // joined deltas
  std::vector<uint32_t> ids;  // joined token_ids
  std::string finish_reason;
  size_t usage_chunks = 0;
};

Stream parse_stream(const RawResponse& response) {
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.whole);
  Stream stream;
  for (const std::string& event : sse_events(response.body)) {
    EXPECT_FALSE(stream.done) << "after [DONE]: " << event;
    if (event == "[DONE]") {
      stream.done = true;
      continue;
    }
    stream.chunks.push_back(strict_json(event));
    const Json& chunk = stream.chunks.back();
    if (!chunk.contains("choices")) continue;
    if (chunk.at("choices").empty()) {
      ++stream.usage_chunks;
      continue;
    }
    const Json& choice = chunk.at("choices").at(0);
    if (choice.contains("text")) stream.text += choice.at("text").get<std::string>();
    if (choice.contains("delta")) stream.text += choice.at("delta").value("content", "");
    if (choice.contains("token_ids")) {
      for (const Json& id : choice.at("token_ids")) stream.ids.push_back(id);
    }
    if (choice.at("finish_reason").is_string()) stream.finish_reason = choice.at("finish_reason");
  }
  return stream;
}

std::string with_stream(const std::string& extra = {}) {
  return R"("stream":true)" + (extra.empty() ? "" : "," + extra);
}

TEST(Answer, ChatHasOpenAiShapeAndTrace) {
  GatewayFixture fixture;
  fixture.script(bytes_of("hello"), FinishReason::kStopId);
  const RawResponse response = fixture.post(kChat, chat_body(), "X-Request-Id: abc\r\n");
  ASSERT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.at("content-type"), "application/json");
  EXPECT_EQ(response.headers.at("x-request-id"), "abc");
  const Json json = strict_json(response.body);
  EXPECT_EQ(json.at("object"), "chat.completion");
  EXPECT_EQ(json.at("id").get<std::string>().substr(0, 9), "chatcmpl-");
  EXPECT_EQ(json.at("created"), 1234567890);
  EXPECT_EQ(json.at("model"), "org/smol");
  const Json& choice = json.at("choices").at(0);
  EXPECT_EQ(choice.at("message").at("role"), "assistant");
  EXPECT_EQ(choice.at("message").at("content"), "hello");
  EXPECT_EQ(choice.at("finish_reason"), "stop");
  EXPECT_FALSE(choice.contains("token_ids"));
  EXPECT_EQ(json.at("usage").at("completion_tokens"), 5);
  EXPECT_EQ(json.at("usage").at("prompt_tokens_details").at("cached_tokens"), 1);
  const Json& trace = json.at("tandem");
  EXPECT_EQ(trace.at("prefill_instance"), "prefill-0");
  EXPECT_EQ(trace.at("decode_instance"), "decode-0");
  EXPECT_EQ(trace.at("kv_bytes_moved"), 4096);
  EXPECT_EQ(trace.at("hidden_share"), 0.5);
  EXPECT_EQ(trace.at("ttft_ms"), 250);
  EXPECT_EQ(trace.at("longest_gap_ms"), 125);
  EXPECT_EQ(trace.at("logits_digest"), "0000000000000abc");
}

TEST(Answer, CompletionKeepsLengthReason) {
  GatewayFixture fixture;
  fixture.script(bytes_of("abc"), FinishReason::kLength);
  const Json json = strict_json(fixture.post(kCompletions, completion_body()).body);
  EXPECT_EQ(json.at("object"), "text_completion");
  EXPECT_EQ(json.at("choices").at(0).at("text"), "abc");
  EXPECT_EQ(json.at("choices").at(0).at("finish_reason"), "length");
  EXPECT_EQ(json.at("usage").at("prompt_tokens"), 2);
  EXPECT_EQ(json.at("usage").at("total_tokens"), 5);
}

TEST(Stream, RoleComesFirstAndDoneLast) {
  GatewayFixture fixture;
  fixture.script(bytes_of("hello"), FinishReason::kStopId);
  const RawResponse response = fixture.post(kChat, chat_body(with_stream()));
  EXPECT_EQ(response.headers.at("content-type").substr(0, 17), "text/event-stream");
  const Stream stream = parse_stream(response);
  EXPECT_TRUE(stream.done);
  EXPECT_EQ(stream.text, "hello");
  EXPECT_EQ(stream.finish_reason, "stop");
  const Json& first = stream.chunks.front().at("choices").at(0);
  EXPECT_EQ(first.at("delta").at("role"), "assistant");
  EXPECT_EQ(first.at("delta").at("content"), "");
  for (size_t i = 0; i < stream.chunks.size(); ++i) {
    const Json& chunk = stream.chunks[i];
    EXPECT_EQ(chunk.at("object"), "chat.completion.chunk");
    EXPECT_EQ(chunk.at("id"), stream.chunks[0].at("id"));
    EXPECT_EQ(chunk.contains("tandem"), i + 1 == stream.chunks.size());
    EXPECT_FALSE(chunk.contains("usage"));
    EXPECT_EQ(chunk.at("choices").at(0).at("delta").contains("role"), i == 0);
  }
}

TEST(Stream, UsageChunkComesAloneDirectlyBeforeDone) {
  for (const char* route : {kChat, kCompletions}) {
    GatewayFixture fixture;
    fixture.script(bytes_of("hello"), FinishReason::kLength);
    const std::string extra = with_stream(R"("stream_options":{"include_usage":true})");
    const bool chat = route == std::string(kChat);
    const Stream stream =
        parse_stream(fixture.post(route, chat ? chat_body(extra) : completion_body(extra)));
    EXPECT_EQ(stream.usage_chunks, 1u);
    const Json& last = stream.chunks.back();
    EXPECT_TRUE(last.at("choices").empty());
    EXPECT_EQ(last.at("usage").at("completion_tokens"), 5);
    EXPECT_EQ(last.at("usage").at("total_tokens"),
              last.at("usage").at("prompt_tokens").get<int>() + 5);
    for (size_t i = 0; i + 1 < stream.chunks.size(); ++i) {
      EXPECT_TRUE(stream.chunks[i].at("usage").is_null());
    }
  }
}

TEST(Stream, NoUsageChunkUnlessAsked) {
  for (const char* options : {R"("stream_options":{"include_usage":false})",
                              R"("stream_options":{})", R"("stream_options":null)"}) {
    GatewayFixture fixture;
    fixture.script(bytes_of("x"), FinishReason::kLength);
    const Stream stream = parse_stream(fixture.post(kChat, chat_body(with_stream(options))));
    EXPECT_EQ(stream.usage_chunks, 0u);
    for (const Json& chunk : stream.chunks) EXPECT_FALSE(chunk.contains("usage"));
  }
}

// A four-byte character in every cut, one token per byte group.
TEST(Stream, SplitCharactersArriveWhole) {
  const std::string emoji = "\xf0\x9f\x98\x80";
  for (const size_t per_step : {1, 2, 3, 4}) {
    GatewayFixture fixture;
    fixture.script(bytes_of("a" + emoji + "b"), FinishReason::kStopId, per_step);
    const Stream stream = parse_stream(fixture.post(kChat, chat_body(with_stream())));
    EXPECT_EQ(stream.text, "a" + emoji + "b");
  }
}

TEST(Stream, ACutCharacterGivesOneReplacementInBothModes) {
  for (const bool streamed : {true, false}) {
    GatewayFixture fixture;
    fixture.script(bytes_of("a\xf0\x9f\x98"), FinishReason::kLength);
    const std::string body = completion_body(streamed ? with_stream() : "");
    const RawResponse response = fixture.post(kCompletions, body);
    const std::string text =
        streamed ? parse_stream(response).text
                 : strict_json(response.body).at("choices").at(0).at("text").get<std::string>();
    EXPECT_EQ(text, "a\xef\xbf\xbd");
  }
}

TEST(Stream, ALoneInvalidByteNeverStalls) {
  GatewayFixture fixture;
  fixture.script(bytes_of("a\xff" "b"), FinishReason::kLength);
  EXPECT_EQ(parse_stream(fixture.post(kChat, chat_body(with_stream()))).text, "a\xef\xbf\xbd" "b");
}

TEST(Stream, StopStringInsideAndAcrossTokens) {
  for (const size_t per_step : {1, 3, 100}) {
    for (const bool include : {false, true}) {
      for (const bool streamed : {false, true}) {
        GatewayFixture fixture;
        fixture.script(bytes_of("one kappa-mu! more"), FinishReason::kLength, per_step);
        std::string extra = R"("stop":["kappa-mu"],"return_token_ids":true)";
        if (include) extra += R"(,"include_stop_str_in_output":true)";
        if (streamed) extra += ",\"stream\":true";
        const RawResponse response = fixture.post(kCompletions, completion_body(extra));
        const std::string wanted = include ? "one kappa-mu" : "one ";
        std::string text, reason;
        std::vector<uint32_t> ids;
        if (streamed) {
          const Stream stream = parse_stream(response);
          text = stream.text;
          reason = stream.finish_reason;
          ids = stream.ids;
          if (!include) {
            for (const Json& chunk : stream.chunks) {
              EXPECT_EQ(chunk.dump().find("kap"), std::string::npos);
            }
          }
        } else {
          const Json json = strict_json(response.body);
          text = json.at("choices").at(0).at("text");
          reason = json.at("choices").at(0).at("finish_reason");
          ids = json.at("choices").at(0).at("token_ids").get<std::vector<uint32_t>>();
          EXPECT_EQ(json.at("usage").at("completion_tokens"), 12);
        }
        EXPECT_EQ(text, wanted);
        EXPECT_EQ(reason, "stop");
        EXPECT_EQ(ids, bytes_of("one kappa-mu"));
        fixture.on_loop([&] {
          ASSERT_EQ(fixture.service.finished_early.size(), 1u);
          EXPECT_EQ(fixture.service.finished_early[0].delivered, 12u);
          EXPECT_TRUE(fixture.service.cancelled.empty());
        });
      }
    }
  }
}

TEST(Stream, HeldBackTextIsReleasedWhenNoStopCame) {
  GatewayFixture fixture;
  fixture.script(bytes_of("a kap"), FinishReason::kLength);
  const Stream stream =
      parse_stream(fixture.post(kChat, chat_body(with_stream(R"("stop":"kappa")"))));
  EXPECT_EQ(stream.text, "a kap");
  EXPECT_EQ(stream.finish_reason, "length");
}

TEST(Stream, TokenIdsJoinToTheWholeAndPromptIdsComeOnce) {
  for (const char* route : {kChat, kCompletions}) {
    const bool chat = route == std::string(kChat);
    std::vector<uint32_t> output = bytes_of("h\xc3\xa9 kap");
    output.push_back(kEos);
    Json whole;
    Stream stream;
    for (const bool streamed : {false, true}) {
      GatewayFixture fixture;
      fixture.script(output, FinishReason::kStopId);
      std::string extra = R"("return_token_ids":true,"stop":"kappa")";
      if (streamed) extra += ",\"stream\":true";
      const RawResponse response =
          fixture.post(route, chat ? chat_body(extra) : completion_body(extra));
      if (streamed) {
        stream = parse_stream(response);
      } else {
        whole = strict_json(response.body).at("choices").at(0);
      }
    }
    EXPECT_EQ(whole.at("token_ids").get<std::vector<uint32_t>>(), output);
    EXPECT_EQ(stream.ids, output);
    EXPECT_EQ(stream.text, "h\xc3\xa9 kap");
    for (size_t i = 0; i < stream.chunks.size(); ++i) {
      const Json& choice = stream.chunks[i].at("choices").at(0);
      EXPECT_EQ(choice.contains("prompt_token_ids"), i == 0);
      if (i == 0) {
        EXPECT_EQ(choice.at("prompt_token_ids"), whole.at("prompt_token_ids"));
      }
    }
  }
}

TEST(Stream, ControlTokensHaveTextOnlyWhenAsked) {
  for (const bool skip : {true, false}) {
    GatewayFixture fixture;
    fixture.script({'a', kTurn, 'b', kEos}, FinishReason::kStopId);
    const std::string extra =
        with_stream(std::string(R"("skip_special_tokens":)") + (skip ? "true" : "false"));
    EXPECT_EQ(parse_stream(fixture.post(kChat, chat_body(extra))).text,
              skip ? "ab" : "a<|im_start|>b</s>");
  }
}

TEST(Stream, AnEmptyAnswerStillEndsProperly) {
  GatewayFixture fixture;
  fixture.script({kEos}, FinishReason::kStopId);
  const Stream stream = parse_stream(fixture.post(kCompletions, completion_body(with_stream())));
  EXPECT_EQ(stream.text, "");
  EXPECT_EQ(stream.finish_reason, "stop");
  EXPECT_TRUE(stream.done);
}

TEST(Stream, AFailureIsOneErrorEventAndNoDone) {
  for (const size_t tokens : {0, 5}) {
    GatewayFixture fixture;
    fixture.on_loop([&] {
      fixture.service.on_submit = [&, tokens] {
        fixture.service.emit(std::vector<uint32_t>(tokens, 'x'));
        fixture.service.fail({ErrorCode::kUnavailable, "the decode instance is gone", ""});
      };
    });
    const Stream stream = parse_stream(fixture.post(kChat, chat_body(with_stream())));
    EXPECT_FALSE(stream.done);
    EXPECT_EQ(stream.finish_reason, "");
    EXPECT_EQ(stream.chunks.size(), 2 + tokens);
    EXPECT_EQ(stream.chunks.back().at("error").at("message"), "the decode instance is gone");
    EXPECT_EQ(fixture.num_calls(), 0u);
  }
}

TEST(Answer, AFailureIsAnErrorStatus) {
  const std::pair<ErrorCode, int> kCases[] = {{ErrorCode::kUnavailable, 503},
                                              {ErrorCode::kDeadline, 503},
                                              {ErrorCode::kIo, 502},
                                              {ErrorCode::kInternal, 500}};
  for (const auto& [code, status] : kCases) {
    GatewayFixture fixture;
    fixture.on_loop([&, failure = code] {
      fixture.service.on_submit = [&fixture, failure] {
        fixture.service.emit(bytes_of("partial"));
        fixture.service.fail({failure, "broken", ""});
      };
    });
    const RawResponse response = fixture.post(kChat, chat_body());
    EXPECT_EQ(response.status, status);
    EXPECT_EQ(strict_json(response.body).at("error").at("message"), "broken");
  }
}

TEST(Answer, RefusalsOfTheServiceKeepTheirMeaning) {
  GatewayFixture fixture;
  const auto answer = [&](Error error) {
    fixture.on_loop([&] { fixture.service.refuse = error; });
    return fixture.post(kChat, chat_body(with_stream()));
  };
  RawResponse response = answer({ErrorCode::kExhausted, "the queue is full", ""});
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(response.headers.count("retry-after"), 1u);
  response = answer({ErrorCode::kUnavailable, "no path", ""});
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.headers.count("retry-after"), 1u);
  response = answer({ErrorCode::kInvalidArgument, "never fits", "max_tokens"});
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(strict_json(response.body).at("error").at("param"), "max_tokens");
  fixture.on_loop([&] { fixture.service.state = draining_state(); });
  response = answer({ErrorCode::kExhausted, "draining", ""});
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(fixture.num_calls(), 0u);
}

TEST(Stream, OneConnectionCarriesManyAnswers) {
  GatewayFixture fixture;
  fixture.script(bytes_of("hello"), FinishReason::kLength);
  RawClient client(fixture.port());
  for (int i = 0; i < 3; ++i) {
    client.post(kChat, chat_body(with_stream()));
    EXPECT_EQ(parse_stream(client.read_response()).text, "hello");
    client.post(kChat, chat_body());
    EXPECT_EQ(client.read_response().status, 200);
    client.post(kChat, "{:");
    EXPECT_EQ(client.read_response().status, 400);
  }
}

}  // namespace
}  // namespace tandem::gateway
