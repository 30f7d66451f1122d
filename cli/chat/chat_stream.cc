#include "cli/chat/chat_stream.h"

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/client/sse.h"

namespace tandem::chat {
namespace {

using Json = nlohmann::json;

// A member of the right type, or nothing: the server's extras are optional.
template <typename T>
std::optional<T> member(const Json& object, const char* name) {
  if (!object.is_object() || !object.contains(name)) return std::nullopt;
  try {
    return object.at(name).get<T>();
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

Json parse(const std::string& text) { return Json::parse(text, nullptr, false); }

// The message inside {"error": {"message": …}}.
std::optional<std::string> server_error(const Json& reply) {
  if (!reply.is_object() || !reply.contains("error")) return std::nullopt;
  const Json& error = reply["error"];
  if (error.is_string()) return error.get<std::string>();
  return member<std::string>(error, "message").value_or("the server reports an error");
}

void read_figures(const Json& chunk, ChatFigures& figures) {
  if (chunk.contains("usage") && chunk["usage"].is_object()) {
    figures.prompt_tokens = member<int>(chunk["usage"], "prompt_tokens").value_or(0);
    figures.completion_tokens = member<int>(chunk["usage"], "completion_tokens").value_or(0);
  }
  if (!chunk.contains("tandem") || !chunk["tandem"].is_object()) return;
  const Json& extra = chunk["tandem"];
  const auto keep = [&]<typename T>(std::optional<T>& place, const char* name) {
    if (std::optional<T> value = member<T>(extra, name)) place = std::move(value);
  };
  keep(figures.prefill_instance, "prefill_instance");
  keep(figures.decode_instance, "decode_instance");
  keep(figures.kv_bytes_moved, "kv_bytes_moved");
  keep(figures.hidden_share, "hidden_share");
  keep(figures.attempts, "attempts");
}

Error reply_error(const client::Url& url, const client::HttpReply& reply) {
  const std::string message =
      server_error(parse(reply.body)).value_or("HTTP status " + std::to_string(reply.status));
  return Error{ErrorCode::kUnavailable, url.text() + ": " + message, ""};
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return to_seconds(std::chrono::steady_clock::now() - start);
}

}  // namespace

double ChatFigures::tokens_per_s() const {
  const double decode_s = total_s - time_to_first_token_s;
  return completion_tokens > 1 && decode_s > 0 ? (completion_tokens - 1) / decode_s : 0;
}

std::string request_body(const std::vector<Message>& messages, const ChatOptions& options) {
  Json body;
  body["model"] = options.model;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  if (options.max_tokens > 0) body["max_tokens"] = options.max_tokens;
  if (options.temperature) body["temperature"] = *options.temperature;
  if (options.seed) body["seed"] = *options.seed;
  body["messages"] = Json::array();
  for (const Message& message : messages) {
    body["messages"].push_back({{"role", message.role}, {"content", message.content}});
  }
  // A terminal may hand over half a character: replaced, not thrown.
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<std::string> read_chunk(const std::string& event, ChatAnswer& answer) {
  const Json chunk = parse(event);
  if (const auto message = server_error(chunk)) {
    return Error{ErrorCode::kUnavailable, *message, ""};
  }
  if (!chunk.is_object() || !chunk.contains("choices") || !chunk["choices"].is_array()) {
    return Error{ErrorCode::kCorrupt, "an event that is no chat chunk", ""};
  }
  read_figures(chunk, answer.figures);
  if (chunk["choices"].empty()) return std::string();
  const Json& choice = chunk["choices"][0];
  if (auto reason = member<std::string>(choice, "finish_reason")) {
    answer.figures.finish_reason = *reason;
  }
  if (!choice.is_object() || !choice.contains("delta")) return std::string();
  std::string text = member<std::string>(choice["delta"], "content").value_or("");
  answer.text += text;
  return text;
}

Result<ChatAnswer> stream_chat(const client::Url& url, const std::vector<Message>& messages,
                               const ChatOptions& options,
                               const std::function<bool(std::string_view)>& on_text) {
  ChatAnswer answer;
  client::SseReader reader;
  std::optional<Error> failure;
  bool done = false;
  const auto start = std::chrono::steady_clock::now();
  const auto on_body = [&](std::string_view piece) {
    for (const std::string& event : reader.feed(piece)) {
      if (event == "[DONE]") {
        done = true;
        continue;
      }
      const Result<std::string> text = read_chunk(event, answer);
      if (!text.ok()) {
        failure = text.error();
        return false;
      }
      if (text->empty()) continue;
      if (answer.figures.time_to_first_token_s == 0) {
        answer.figures.time_to_first_token_s = seconds_since(start);
      }
      answer.figures.total_s = seconds_since(start);
      if (!on_text(*text)) return false;
    }
    return true;
  };
  client::HttpRequest request;
  request.method = "POST";
  request.target = "/v1/chat/completions";
  request.body = request_body(messages, options);
  request.is_cancelled = options.is_cancelled;
  const Result<client::HttpReply> reply = client::exchange(url, request, on_body);
  if (failure.has_value()) return *failure;
  if (!reply.ok()) return reply.error();
  if (reply->status != 200) return reply_error(url, *reply);
  if (!done) {
    return Error{ErrorCode::kUnavailable, url.text() + ": the answer broke off", ""};
  }
  return answer;
}

Result<std::string> first_model(const client::Url& url) {
  client::HttpRequest request;
  request.target = "/v1/models";
  request.idle_timeout = std::chrono::seconds(10);
  const Result<client::HttpReply> reply = client::exchange(url, request);
  if (!reply.ok()) return reply.error();
  if (reply->status != 200) return reply_error(url, *reply);
  const Json models = parse(reply->body);
  if (models.is_object() && models.contains("data") && models["data"].is_array() &&
      !models["data"].empty()) {
    if (auto id = member<std::string>(models["data"][0], "id")) return *id;
  }
  return Error{ErrorCode::kCorrupt, url.text() + ": /v1/models lists no model", ""};
}

std::string describe(const ChatFigures& figures) {
  char line[160];
  std::snprintf(line, sizeof line, "first token after %.3f s, then %.1f tokens/s (%d + %d tokens)\n",
                figures.time_to_first_token_s, figures.tokens_per_s(), figures.prompt_tokens,
                figures.completion_tokens);
  std::string text = line;
  if (figures.prefill_instance || figures.decode_instance) {
    text += "prefilled by " + figures.prefill_instance.value_or("?") + ", decoded by " +
            figures.decode_instance.value_or("?") + "\n";
  }
  if (figures.kv_bytes_moved) {
    text += "KV bytes moved: " + std::to_string(*figures.kv_bytes_moved) + "\n";
  }
  if (figures.hidden_share) {
    std::snprintf(line, sizeof line, "hidden share of the transfer: %.0f %%\n",
                  100 * *figures.hidden_share);
    text += line;
  } else if (figures.kv_bytes_moved && *figures.kv_bytes_moved > 0) {
    text += "hidden share of the transfer: none (the prompt fits one chunk)\n";
  }
  return text;
}

}  // namespace tandem::chat
