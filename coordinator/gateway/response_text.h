#pragma once
// The JSON of answers and stream events. Pure; every result is valid UTF-8 JSON.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "coordinator/gateway/api_error.h"
#include "coordinator/gateway/api_request.h"
#include "coordinator/request/service.h"

namespace tandem::gateway {

// What all chunks of one answer share.
struct AnswerHead {
  Endpoint endpoint = Endpoint::kChat;
  std::string id;            // "chatcmpl-…" or "cmpl-…"
  std::string model;
  int64_t created_s = 0;     // Unix time
  bool usage_key = false;    // every chunk has "usage": null (stream_options.include_usage)
  bool with_token_ids = false;
};

// One choice, or what a stream says of it at once. Views into the caller's data.
struct AnswerPart {
  std::string_view text;
  std::span<const uint32_t> token_ids;
  // In the whole answer and in the first chunk of a stream.
  bool first = false;
  std::span<const uint32_t> prompt_token_ids;
  // Set in the whole answer and in the last content chunk.
  const char* finish_reason = nullptr;   // "stop" or "length"
  const request::Trace* trace = nullptr;
};

// The answer of a call that does not stream.
std::string answer_json(const AnswerHead& head, const AnswerPart& part,
                        const request::Usage& usage);

// Server-sent events, each with its blank line.
std::string chunk_event(const AnswerHead& head, const AnswerPart& part);
std::string usage_event(const AnswerHead& head, const request::Usage& usage);
std::string error_event(const ApiError& error);
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

}  // namespace tandem::gateway
