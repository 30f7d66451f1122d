#pragma once
// What a client asked for: the body of /v1/chat/completions or /v1/completions as a checked struct.
// Pure; knows the model's vocabulary size, never its tokenizer or context length.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "coordinator/gateway/json_reader.h"

namespace tandem::gateway {

enum class Endpoint { kChat, kCompletion };

inline constexpr size_t kMaxMessages = 4096;
inline constexpr size_t kMaxStopStrings = 16;
inline constexpr size_t kMaxStopCharacters = 256;
inline constexpr size_t kMaxStopTokenIds = 64;

struct ApiRequest {
  Endpoint endpoint = Endpoint::kChat;

  // Chat: messages as given (checked: a known role; content a string or a list of text parts).
  Json messages;
  bool add_generation_prompt = true;
  // Completions: text, in which control tokens are parsed, or ids, which are taken as they are.
  std::variant<std::string, std::vector<uint32_t>> prompt;

  std::optional<uint32_t> max_tokens;         // output tokens, >= 1
  const char* max_tokens_name = "max_tokens"; // which field said so, for errors
  float temperature = 1.0f;           // 0 to 2
  float top_p = 1.0f;                 // (0, 1]
  float min_p = 0.0f;                 // 0 to 1
  int32_t top_k = 0;                  // 0: off
  std::optional<uint64_t> seed;

  std::vector<std::string> stop;
  std::vector<uint32_t> stop_token_ids;
  bool ignore_eos = false;
  bool include_stop_text = false;     // include_stop_str_in_output
  bool skip_special_tokens = true;    // control tokens have no text

  bool stream = false;
  bool include_usage = false;         // stream_options.include_usage
  bool return_token_ids = false;
};

// Every field is checked on both sides and named when wrong: kInvalidArgument, kUnsupported for one
// that would change the meaning, kNotFound for a model other than `served_model`. null and neutral
// values count as absent; unknown fields are ignored. docs/PROTOCOL.md lists them all.
Result<ApiRequest> parse_api_request(Endpoint endpoint, std::string_view body,
                                     std::string_view served_model, uint32_t vocabulary_size);

}  // namespace tandem::gateway
