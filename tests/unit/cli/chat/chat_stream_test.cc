#include "cli/chat/chat_stream.h"

#include <gtest/gtest.h>

namespace tandem::chat {
namespace {

TEST(RequestBody, AsksForAStreamWithUsage) {
  ChatOptions options;
  options.model = "m";
  options.max_tokens = 7;
  options.temperature = 0;
  EXPECT_EQ(request_body({{"system", "s"}, {"user", "say \"hi\""}}, options),
            R"({"max_tokens":7,"messages":[{"content":"s","role":"system"},)"
            R"({"content":"say \"hi\"","role":"user"}],"model":"m","stream":true,)"
            R"("stream_options":{"include_usage":true},"temperature":0.0})");
}

TEST(RequestBody, SurvivesHalfACharacter) {
  EXPECT_NE(request_body({{"user", "\xf0\x9f"}}, {}).find("\xef\xbf\xbd"), std::string::npos);
}

TEST(ReadChunk, GathersTextAndFigures) {
  ChatAnswer answer;
  EXPECT_EQ(*read_chunk(R"({"choices":[{"delta":{"role":"assistant"}}]})", answer), "");
  EXPECT_EQ(*read_chunk(R"({"choices":[{"delta":{"content":"He"},"finish_reason":null}]})",
                        answer), "He");
  EXPECT_EQ(*read_chunk(R"({"choices":[{"delta":{"content":"y"},"finish_reason":"stop"}]})",
                        answer), "y");
  EXPECT_EQ(*read_chunk(R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2},)"
                        R"("tandem":{"prefill_instance":"prefill-0","hidden_share":null,)"
                        R"("kv_bytes_moved":1024}})", answer), "");
  EXPECT_EQ(answer.text, "Hey");
  EXPECT_EQ(answer.figures.finish_reason, "stop");
  EXPECT_EQ(answer.figures.prompt_tokens, 3);
  EXPECT_EQ(answer.figures.completion_tokens, 2);
  EXPECT_EQ(answer.figures.prefill_instance, "prefill-0");
  EXPECT_EQ(answer.figures.kv_bytes_moved, 1024);
  EXPECT_FALSE(answer.figures.hidden_share.has_value());
  EXPECT_FALSE(answer.figures.decode_instance.has_value());
}

TEST(ReadChunk, PassesOnTheServersError) {
  ChatAnswer answer;
  const Result<std::string> text = read_chunk(R"({"error":{"message":"worker lost"}})", answer);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().message, "worker lost");
}

TEST(ReadChunk, RefusesWhatIsNoChunk) {
  ChatAnswer answer;
  for (const char* event : {"", "{", "[]", "5", "{}", R"({"choices":5})"}) {
    const Result<std::string> text = read_chunk(event, answer);
    ASSERT_FALSE(text.ok()) << event;
    EXPECT_EQ(text.error().code, ErrorCode::kCorrupt);
  }
  EXPECT_TRUE(read_chunk(R"({"choices":[{"delta":{"content":5}}],"tandem":[],"usage":3})",
                         answer).ok());
}

TEST(ChatFigures, RateCountsTheTokensAfterTheFirst) {
  ChatFigures figures;
  figures.time_to_first_token_s = 1;
  figures.total_s = 3;
  figures.completion_tokens = 11;
  EXPECT_DOUBLE_EQ(figures.tokens_per_s(), 5);
  figures.completion_tokens = 1;
  EXPECT_DOUBLE_EQ(figures.tokens_per_s(), 0);
}

TEST(Describe, SaysWhereTheRequestRan) {
  ChatFigures figures;
  figures.completion_tokens = 1;
  figures.prefill_instance = "prefill-0";
  figures.decode_instance = "decode-1";
  figures.kv_bytes_moved = 737280;
  figures.hidden_share = 0.75;
  EXPECT_EQ(describe(figures),
            "first token after 0.000 s, then 0.0 tokens/s (0 + 1 tokens)\n"
            "prefilled by prefill-0, decoded by decode-1\n"
            "KV bytes moved: 737280\n"
            "hidden share of the transfer: 75 %\n");
}

}  // namespace
}  // namespace tandem::chat
