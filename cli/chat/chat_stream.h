#pragma once
// One streamed answer of /v1/chat/completions: what arrives, and what it says about the request.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/client/http_client.h"
#include "comm/runtime/clock.h"
#include "comm/runtime/result.h"

namespace tandem::chat {

struct Message {
  std::string role;
  std::string content;
};

struct ChatOptions {
  std::string model;
  int max_tokens = 0;                 // 0: up to the context
  std::optional<double> temperature;  // absent: the server's default
  std::optional<int64_t> seed;
  std::function<bool()> is_cancelled;  // asked while waiting for the server; may be empty
};

// Figures of an answer. What the server does not report is absent.
struct ChatFigures {
  double time_to_first_token_s = 0;   // seen here: request sent to first text received
  double total_s = 0;
  int prompt_tokens = 0;
  int completion_tokens = 0;
  std::string finish_reason;
  std::optional<std::string> prefill_instance;
  std::optional<std::string> decode_instance;
  std::optional<int64_t> kv_bytes_moved;  // moved from prefill to decode
  std::optional<double> hidden_share;     // of the transfer, 0 to 1; absent for one-chunk prompts
  std::optional<int> attempts;

  // Tokens per second after the first one; 0 when there is only one.
  double tokens_per_s() const;
};

struct ChatAnswer {
  std::string text;
  ChatFigures figures;
};

// The JSON body of the request.
std::string request_body(const std::vector<Message>& messages, const ChatOptions& options);

// Reads one event's JSON into the answer so far; returns the text it adds. kUnavailable when the
// event is an error of the server, kCorrupt when it is no chunk.
Result<std::string> read_chunk(const std::string& event, ChatAnswer& answer);

// Sends the messages and calls on_text with each piece of the answer; false from it ends the
// request (kCancelled). Errors of the server carry its message.
Result<ChatAnswer> stream_chat(const client::Url& url, const std::vector<Message>& messages,
                               const ChatOptions& options,
                               const std::function<bool(std::string_view)>& on_text);

// Id of the first model the server offers.
Result<std::string> first_model(const client::Url& url);

// "12 tokens, first after 0.21 s, …": one line per fact, for people.
std::string describe(const ChatFigures& figures);

}  // namespace tandem::chat
