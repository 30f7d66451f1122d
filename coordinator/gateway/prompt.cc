#include "coordinator/gateway/prompt.h"

#include <algorithm>
#include <ctime>
#include <utility>

namespace tandem::gateway {
namespace {

constexpr uint32_t kDefaultCompletionTokens = 16;

Error too_long(const ApiRequest& request, const std::string& prompt_size, uint32_t max_context) {
  const bool chat = request.endpoint == Endpoint::kChat;
  return {ErrorCode::kExhausted,
          "this model's maximum context length is " + std::to_string(max_context) +
              " tokens; the prompt has " + prompt_size +
              " and leaves no room for an answer; shorten it",
          chat ? "messages" : "prompt"};
}

// Bytes of a conversation that end up in the prompt, whatever the template adds.
size_t content_bytes(const Json& messages) {
  size_t bytes = 0;
  for (const Json& message : messages) {
    const Json& content = message.at("content");
    if (content.is_string()) {
      bytes += content.get_ref<const std::string&>().size();
      continue;
    }
    for (const Json& part : content) {
      bytes += part.at("text").get_ref<const std::string&>().size();
    }
  }
  return bytes;
}

size_t text_bytes(const ApiRequest& request) {
  if (request.endpoint == Endpoint::kChat) return content_bytes(request.messages);
  const auto* text = std::get_if<std::string>(&request.prompt);
  return text == nullptr ? 0 : text->size();
}

using Ids = std::vector<tokenizer::TokenId>;
using nlohmann::ordered_json;

// What the template sees of a message: all of it, without nulls; "developer" is OpenAI's newer name
// of the system role, which no template here knows.
ordered_json template_message(const Json& message) {
  ordered_json out = ordered_json::object();
  for (const auto& [key, value] : message.items()) {
    if (!value.is_null()) out[key] = ordered_json(value);
  }
  if (out.at("role") == "developer") out["role"] = "system";
  return out;
}

// The variables Hugging Face's renderer sets, so that templates find what they were written for.
ordered_json request_variables(const ApiRequest& request) {
  ordered_json messages = ordered_json::array();
  for (const Json& message : request.messages) messages.push_back(template_message(message));
  return {{"messages", std::move(messages)},
          {"tools", nullptr},
          {"documents", nullptr},
          {"add_generation_prompt", request.add_generation_prompt}};
}

ordered_json model_variables(const tokenizer::Vocabulary& vocabulary) {
  ordered_json out = ordered_json::object();
  if (const auto bos = vocabulary.bos()) out["bos_token"] = std::string(vocabulary.bytes(*bos));
  if (const auto eos = vocabulary.eos()) out["eos_token"] = std::string(vocabulary.bytes(*eos));
  return out;
}

Result<Ids> encode_chat(const ApiRequest& request, const ModelText& model, int64_t unix_time_s) {
  if (model.chat_template == nullptr) {
    return Error{ErrorCode::kUnsupported,
                 "this model can't chat (" + model.no_chat_reason + "); use /v1/completions",
                 "messages"};
  }
  const auto seconds = static_cast<std::time_t>(unix_time_s);
  const ordered_json variables = request_variables(request);
  const ordered_json of_model = model_variables(model.tokenizer.vocabulary());
  chat_template::RenderInput input{.request = variables, .model = of_model};
  ::localtime_r(&seconds, &input.now);
  const Result<tokenizer::RenderedPrompt> rendered = model.chat_template->render(input);
  if (!rendered.ok()) return rendered.error();
  return model.tokenizer.encode(*rendered);
}

Result<Ids> encode_completion(const ApiRequest& request, const ModelText& model) {
  if (const auto* text = std::get_if<std::string>(&request.prompt)) {
    return model.tokenizer.encode(*text, tokenizer::SpecialText::kParsed);
  }
  const auto& ids = std::get<std::vector<uint32_t>>(request.prompt);
  return Ids(ids.begin(), ids.end());
}

}  // namespace

size_t max_token_bytes(const tokenizer::Tokenizer& tokenizer) {
  const tokenizer::Vocabulary& vocabulary = tokenizer.vocabulary();
  size_t longest = 1;
  for (size_t id = 0; id < vocabulary.size(); ++id) {
    longest = std::max(longest, vocabulary.bytes(static_cast<tokenizer::TokenId>(id)).size());
  }
  return longest;
}

Result<std::vector<uint32_t>> build_prompt(const ApiRequest& request, const ModelText& model,
                                           size_t max_bytes_per_token, int64_t unix_time_s) {
  const size_t least_tokens = text_bytes(request) / max_bytes_per_token;
  if (least_tokens >= model.max_context) {
    return too_long(request, "more than " + std::to_string(least_tokens), model.max_context);
  }
  const bool chat = request.endpoint == Endpoint::kChat;
  Result<Ids> ids = chat ? encode_chat(request, model, unix_time_s)
                         : encode_completion(request, model);
  if (!ids.ok()) {
    Error error = ids.error();
    error.field = chat ? "messages" : "prompt";
    return error;
  }
  const bool given_as_ids = !chat && request.prompt.index() == 1 && !ids->empty();
  const Ids all = given_as_ids ? *std::move(ids) : model.tokenizer.with_bos(*std::move(ids));
  if (all.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "the prompt has no tokens, and this model has no beginning-of-text token",
                 chat ? "messages" : "prompt"};
  }
  return std::vector<uint32_t>(all.begin(), all.end());
}

Result<uint32_t> resolve_max_tokens(const ApiRequest& request, size_t num_prompt_tokens,
                                    uint32_t max_context, uint32_t pool_tokens) {
  if (num_prompt_tokens >= max_context) {
    return too_long(request, std::to_string(num_prompt_tokens), max_context);
  }
  const auto prompt = static_cast<uint32_t>(num_prompt_tokens);
  const uint32_t room = max_context - prompt;
  if (!request.max_tokens) {
    uint32_t most = room;
    if (pool_tokens > prompt) most = std::min(most, pool_tokens - prompt);
    const bool chat = request.endpoint == Endpoint::kChat;
    return chat ? most : std::min(most, kDefaultCompletionTokens);
  }
  if (*request.max_tokens > room) {
    return Error{ErrorCode::kExhausted,
                 "this model's maximum context length is " + std::to_string(max_context) +
                     " tokens; the prompt has " + std::to_string(prompt) + " and " +
                     request.max_tokens_name + " asks for " +
                     std::to_string(*request.max_tokens) + " more, " +
                     std::to_string(uint64_t{prompt} + *request.max_tokens) + " in all",
                 request.max_tokens_name};
  }
  return *request.max_tokens;
}

}  // namespace tandem::gateway
