#include <gtest/gtest.h>

#include <string>

#include "coordinator/gateway/api_error.h"
#include "coordinator/gateway/api_request.h"

namespace tandem::gateway {
namespace {

constexpr uint32_t kVocabulary = 100;

Result<ApiRequest> parse_chat(const std::string& fields) {
  return parse_api_request(Endpoint::kChat,
                           R"({"messages":[{"role":"user","content":"hi"}])" +
                               (fields.empty() ? "" : "," + fields) + "}",
                           "smol", kVocabulary);
}

Result<ApiRequest> parse_completion(const std::string& fields) {
  return parse_api_request(Endpoint::kCompletion, "{" + fields + "}", "smol", kVocabulary);
}

struct Bad {
  const char* fields;
  const char* param;
  const char* code = "invalid_value";
};

void expect_refused(const Result<ApiRequest>& result, const Bad& bad) {
  ASSERT_FALSE(result.ok()) << bad.fields;
  const ApiError error = request_error(result.error());
  EXPECT_EQ(error.param, bad.param) << bad.fields;
  EXPECT_EQ(error.code, bad.code) << bad.fields;
  EXPECT_EQ(error.status, error.code == "model_not_found" ? 404 : 400) << bad.fields;
  EXPECT_FALSE(error.message.empty());
}

constexpr Bad kBadInBoth[] = {
    {R"("model":5)", "model"},
    {R"("model":"other")", "model", "model_not_found"},
    {R"("model":"")", "model", "model_not_found"},
    {R"("max_tokens":"256")", "max_tokens"},
    {R"("max_tokens":1.5)", "max_tokens"},
    {R"("max_tokens":1.0)", "max_tokens"},
    {R"("max_tokens":0)", "max_tokens"},
    {R"("max_tokens":-1)", "max_tokens"},
    {R"("max_tokens":true)", "max_tokens"},
    {R"("max_tokens":2147483648)", "max_tokens"},
    {R"("max_tokens":9223372036854775808)", "max_tokens"},
    {R"("max_tokens":18446744073709551617)", "max_tokens"},
    {R"("temperature":-0.1)", "temperature"},
    {R"("temperature":2.1)", "temperature"},
    {R"("temperature":"NaN")", "temperature"},
    {R"("temperature":NaN)", "temperature"},
    {R"("temperature":1e400)", "temperature"},
    {R"("temperature":[1])", "temperature"},
    {R"("top_p":0)", "top_p"},
    {R"("top_p":1.01)", "top_p"},
    {R"("top_p":-Infinity)", "top_p"},
    {R"("min_p":-0.5)", "min_p"},
    {R"("min_p":1.5)", "min_p"},
    {R"("min_p":Infinity)", "min_p"},
    {R"("top_k":-2)", "top_k"},
    {R"("top_k":1.5)", "top_k"},
    {R"("top_k":2147483648)", "top_k"},
    {R"("seed":1.5)", "seed"},
    {R"("seed":"1")", "seed"},
    {R"("seed":36893488147419103232)", "seed"},
    {R"("stop":5)", "stop"},
    {R"("stop":"")", "stop"},
    {R"("stop":["a",""])", "stop[1]"},
    {R"("stop":["a",5])", "stop[1]"},
    {R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])",
     "stop"},
    {R"("stop_token_ids":[100])", "stop_token_ids"},
    {R"("stop_token_ids":[-1])", "stop_token_ids"},
    {R"("stop_token_ids":5)", "stop_token_ids"},
    {R"("stop_token_ids":["5"])", "stop_token_ids"},
    {R"("ignore_eos":"true")", "ignore_eos"},
    {R"("ignore_eos":1)", "ignore_eos"},
    {R"("include_stop_str_in_output":0)", "include_stop_str_in_output"},
    {R"("skip_special_tokens":"no")", "skip_special_tokens"},
    {R"("stream":"true")", "stream"},
    {R"("stream":1)", "stream"},
    {R"("stream_options":{"include_usage":true})", "stream_options"},
    {R"("stream":true,"stream_options":true)", "stream_options"},
    {R"("stream":true,"stream_options":{"include_usage":"yes"})", "stream_options.include_usage"},
    {R"("stream":true,"stream_options":{"continuous_usage_stats":true})",
     "stream_options.continuous_usage_stats", "unsupported_value"},
    {R"("return_token_ids":"yes")", "return_token_ids"},
    {R"("user":5)", "user"},
    {R"("n":0)", "n"},
    {R"("n":"1")", "n"},
    {R"("n":1000000000000)", "n"},
    {R"("n":2)", "n", "unsupported_value"},
    {R"("best_of":2)", "best_of", "unsupported_value"},
    {R"("logit_bias":{"5":1})", "logit_bias", "unsupported_value"},
    {R"("logit_bias":{"100":5})", "logit_bias", "unsupported_value"},
    {R"("logit_bias":[1])", "logit_bias"},
    {R"("presence_penalty":0.1)", "presence_penalty", "unsupported_value"},
    {R"("presence_penalty":2.5)", "presence_penalty"},
    {R"("presence_penalty":NaN)", "presence_penalty"},
    {R"("frequency_penalty":-1)", "frequency_penalty", "unsupported_value"},
    {R"("frequency_penalty":"0")", "frequency_penalty"},
    {R"("repetition_penalty":-1)", "repetition_penalty"},
    {R"("repetition_penalty":0)", "repetition_penalty"},
    {R"("repetition_penalty":1.1)", "repetition_penalty", "unsupported_value"},
    {R"("logprobs":true)", "logprobs", "unsupported_value"},
    {R"("logprobs":0)", "logprobs", "unsupported_value"},
    {R"("logprobs":"x")", "logprobs"},
    {R"("top_logprobs":5)", "top_logprobs", "unsupported_value"},
    {R"("prompt_logprobs":1)", "prompt_logprobs", "unsupported_value"},
    {R"("response_format":{"type":"json_object"})", "response_format", "unsupported_value"},
    {R"("response_format":"json")", "response_format"},
    {R"("response_format":{})", "response_format.type"},
    {R"("tools":[{}])", "tools", "unsupported_value"},
    {R"("tool_choice":"required")", "tool_choice", "unsupported_value"},
    {R"("functions":[{}])", "functions", "unsupported_value"},
    {R"("suffix":"x")", "suffix", "unsupported_value"},
    {R"("echo":true)", "echo", "unsupported_value"},
    {R"("min_tokens":3)", "min_tokens", "unsupported_value"},
    {R"("guided_regex":"a")", "guided_regex", "unsupported_value"},
    {R"("bad_words":["a"])", "bad_words", "unsupported_value"},
    {R"("modalities":["audio"])", "modalities", "unsupported_value"},
    {R"("use_beam_search":true)", "use_beam_search", "unsupported_value"},
};

TEST(ApiRequest, BadFieldsAreNamedOnBothRoutes) {
  for (const Bad& bad : kBadInBoth) {
    expect_refused(parse_chat(bad.fields), bad);
    expect_refused(parse_completion(R"("prompt":"x",)" + std::string(bad.fields)), bad);
  }
}

TEST(ApiRequest, BadMessagesAreNamed) {
  constexpr Bad kBad[] = {
      {R"("x":1)", "messages"},
      {R"("messages":null)", "messages"},
      {R"("messages":"hi")", "messages"},
      {R"("messages":[])", "messages"},
      {R"("messages":["hi"])", "messages[0]"},
      {R"("messages":[{"content":"x"}])", "messages[0].role"},
      {R"("messages":[{"role":5,"content":"x"}])", "messages[0].role"},
      {R"("messages":[{"role":"bot","content":"x"}])", "messages[0].role"},
      {R"("messages":[{"role":"tool","content":"x"}])", "messages[0].role", "unsupported_value"},
      {R"("messages":[{"role":"user"}])", "messages[0].content"},
      {R"("messages":[{"role":"user","content":null}])", "messages[0].content"},
      {R"("messages":[{"role":"user","content":5}])", "messages[0].content"},
      {R"("messages":[{"role":"user","content":["x"]}])", "messages[0].content[0]"},
      {R"("messages":[{"role":"user","content":[{"text":"x"}]}])", "messages[0].content[0].type"},
      {R"("messages":[{"role":"user","content":[{"type":"text"}]}])",
       "messages[0].content[0].text"},
      {R"("messages":[{"role":"user","content":[{"type":"image_url"}]}])",
       "messages[0].content[0].type", "unsupported_value"},
      {R"("messages":[{"role":"user","content":"x","name":5}])", "messages[0].name"},
      {R"("messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y",)"
       R"("tool_calls":[{"function":{"name":"f","arguments":"{"}}]}])",
       "messages[1].tool_calls", "unsupported_value"},
      {R"("messages":[{"role":"user","content":"x"}],"max_completion_tokens":0)",
       "max_completion_tokens"},
      {R"("messages":[{"role":"user","content":"x"}],"max_tokens":1,"max_completion_tokens":2)",
       "max_tokens"},
      {R"("messages":[{"role":"user","content":"x"}],"add_generation_prompt":1)",
       "add_generation_prompt"},
      {R"("messages":[{"role":"user","content":"x"}],"continue_final_message":true)",
       "continue_final_message", "unsupported_value"},
  };
  for (const Bad& bad : kBad) {
    const auto body = "{" + std::string(bad.fields) + "}";
    expect_refused(parse_api_request(Endpoint::kChat, body, "smol", kVocabulary), bad);
  }
}

TEST(ApiRequest, BadPromptsAreNamed) {
  constexpr Bad kBad[] = {
      {R"("x":1)", "prompt"},
      {R"("prompt":null)", "prompt"},
      {R"("prompt":5)", "prompt"},
      {R"("prompt":{})", "prompt"},
      {R"("prompt":[-1])", "prompt"},
      {R"("prompt":[100])", "prompt"},
      {R"("prompt":[[100]])", "prompt"},
      {R"("prompt":[2147483648])", "prompt"},
      {R"("prompt":[18446744073709551615])", "prompt"},
      {R"("prompt":[1.0])", "prompt"},
      {R"("prompt":[1,"x"])", "prompt"},
      {R"("prompt":[[[1]]])", "prompt"},
      {R"("prompt":[true])", "prompt"},
      {R"("prompt":["a",1])", "prompt"},
      {R"("prompt":["a","b"])", "prompt", "unsupported_value"},
      {R"("prompt":[[1],[2]])", "prompt", "unsupported_value"},
  };
  for (const Bad& bad : kBad) expect_refused(parse_completion(bad.fields), bad);
}

TEST(ApiRequest, NullAndNeutralValuesCountAsAbsent) {
  const char* const kNeutral =
      R"("model":null,"n":1,"best_of":1,"temperature":null,"top_p":null,"max_tokens":null,)"
      R"("presence_penalty":0,"frequency_penalty":0.0,"repetition_penalty":1.0,"logit_bias":{},)"
      R"("logprobs":false,"top_logprobs":0,"tools":[],"tool_choice":"auto","functions":[],)"
      R"("response_format":{"type":"text"},"stop":null,"stop_token_ids":[],"suffix":"",)"
      R"("echo":false,"stream":false,"stream_options":null,"seed":null,"top_k":-1,"min_p":0,)"
      R"("modalities":["text"],"user":null,"min_tokens":0,"unknown_field":{"a":[1]})";
  for (const bool chat : {true, false}) {
    const auto result =
        chat ? parse_chat(kNeutral) : parse_completion(R"("prompt":"x",)" + std::string(kNeutral));
    ASSERT_TRUE(result.ok()) << result.error().field << ": " << result.error().message;
    EXPECT_FALSE(result->max_tokens.has_value());
    EXPECT_FALSE(result->seed.has_value());
    EXPECT_EQ(result->temperature, 1.0f);
    EXPECT_EQ(result->top_p, 1.0f);
    EXPECT_EQ(result->top_k, 0);
    EXPECT_TRUE(result->stop.empty());
    EXPECT_FALSE(result->stream);
  }
}

TEST(ApiRequest, ReadsEveryField) {
  const auto result = parse_chat(
      R"("model":"smol","max_completion_tokens":7,"temperature":0.5,"top_p":0.25,"min_p":0.125,)"
      R"("top_k":40,"seed":-1,"stop":["a","\u00e9"],"stop_token_ids":[0,99],"ignore_eos":true,)"
      R"("include_stop_str_in_output":true,"skip_special_tokens":false,"stream":true,)"
      R"("stream_options":{"include_usage":true},"return_token_ids":true,)"
      R"("add_generation_prompt":false)");
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->max_tokens, 7u);
  EXPECT_STREQ(result->max_tokens_name, "max_completion_tokens");
  EXPECT_EQ(result->temperature, 0.5f);
  EXPECT_EQ(result->top_p, 0.25f);
  EXPECT_EQ(result->min_p, 0.125f);
  EXPECT_EQ(result->top_k, 40);
  EXPECT_EQ(result->seed, UINT64_MAX);
  EXPECT_EQ(result->stop, (std::vector<std::string>{"a", "\xc3\xa9"}));
  EXPECT_EQ(result->stop_token_ids, (std::vector<uint32_t>{0, 99}));
  EXPECT_TRUE(result->ignore_eos);
  EXPECT_TRUE(result->include_stop_text);
  EXPECT_FALSE(result->skip_special_tokens);
  EXPECT_TRUE(result->stream);
  EXPECT_TRUE(result->include_usage);
  EXPECT_TRUE(result->return_token_ids);
  EXPECT_FALSE(result->add_generation_prompt);
}

TEST(ApiRequest, ReadsEveryPromptShape) {
  const auto text = [](const char* prompt) {
    return std::get<std::string>(parse_completion(std::string(R"("prompt":)") + prompt)->prompt);
  };
  const auto ids = [](const char* prompt) {
    return std::get<std::vector<uint32_t>>(
        parse_completion(std::string(R"("prompt":)") + prompt)->prompt);
  };
  EXPECT_EQ(text(R"("a")"), "a");
  EXPECT_EQ(text(R"(["a"])"), "a");
  EXPECT_EQ(text(R"([""])"), "");
  EXPECT_EQ(ids("[1,99]"), (std::vector<uint32_t>{1, 99}));
  EXPECT_EQ(ids("[[1,99]]"), (std::vector<uint32_t>{1, 99}));
  EXPECT_TRUE(ids("[]").empty());
  EXPECT_TRUE(ids("[[]]").empty());
}

TEST(ApiRequest, StopStringsAreCountedInCharacters) {
  std::string fits;
  for (size_t i = 0; i < kMaxStopCharacters; ++i) fits += "\xf0\x9f\x98\x80";
  EXPECT_TRUE(parse_chat("\"stop\":\"" + fits + "\"").ok());
  expect_refused(parse_chat("\"stop\":\"" + fits + "a\""), {"too long", "stop"});
}

TEST(ApiRequest, ATinyTopPStaysPositive) {
  const auto result = parse_chat(R"("top_p":1e-300)");
  ASSERT_TRUE(result.ok());
  EXPECT_GT(result->top_p, 0.0f);
}

// Whatever one byte says, the body is read or refused by name.
TEST(ApiRequest, EveryCutAndEveryChangedByteIsAnswered) {
  const std::string body =
      R"({"messages":[{"role":"user","content":"h\u00e9"}],"temperature":0.5,"stop":["a"],)"
      R"("stream":true,"stream_options":{"include_usage":true},"max_tokens":12})";
  ASSERT_TRUE(parse_api_request(Endpoint::kChat, body, "smol", kVocabulary).ok());
  const auto try_body = [](const std::string& text) {
    const auto result = parse_api_request(Endpoint::kChat, text, "smol", kVocabulary);
    if (!result.ok()) {
      EXPECT_FALSE(result.error().field.empty());
      EXPECT_FALSE(result.error().message.empty());
    }
    return result.ok();
  };
  for (size_t size = 0; size < body.size(); ++size) EXPECT_FALSE(try_body(body.substr(0, size)));
  for (size_t at = 0; at < body.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = body;
      changed[at] = static_cast<char>(byte);
      try_body(changed);
    }
  }
}

TEST(ApiError, IsAlwaysValidJson) {
  const std::string json = error_json({.status = 400,
                                       .message = "bad \xff \"quoted\"",
                                       .type = "invalid_request_error",
                                       .param = {},
                                       .code = {}});
  const auto read = read_json_object(json);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->at("error").at("message"), "bad \xef\xbf\xbd \"quoted\"");
  EXPECT_TRUE(read->at("error").at("param").is_null());
  EXPECT_TRUE(read->at("error").at("code").is_null());
}

TEST(ApiError, NotNowAndNeverDiffer) {
  const auto status = [](ErrorCode code, bool draining) {
    return service_error({code, "why", ""}, draining).status;
  };
  EXPECT_EQ(status(ErrorCode::kInvalidArgument, false), 400);
  EXPECT_EQ(status(ErrorCode::kExhausted, false), 429);
  EXPECT_EQ(status(ErrorCode::kExhausted, true), 503);
  EXPECT_EQ(status(ErrorCode::kUnavailable, false), 503);
  EXPECT_EQ(status(ErrorCode::kIo, false), 502);
  EXPECT_EQ(status(ErrorCode::kInternal, false), 500);
  EXPECT_GT(service_error({ErrorCode::kExhausted, "why", ""}, false).retry_after_s, 0);
  EXPECT_GT(service_error({ErrorCode::kUnavailable, "why", ""}, false).retry_after_s, 0);
}

}  // namespace
}  // namespace tandem::gateway
