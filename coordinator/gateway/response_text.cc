#include "coordinator/gateway/response_text.h"

#include "coordinator/gateway/json_writer.h"

namespace tandem::gateway {
namespace {

std::string event(std::string_view json) {
  return "data: " + std::string(json) + "\n\n";
}

std::string hex16(uint64_t value) {
  std::string text(16, '0');
  for (size_t i = 16; i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  return text;
}

void write_head(JsonWriter& json, const AnswerHead& head, const char* object) {
  json.key("id").string(head.id);
  json.key("object").string(object);
  json.key("created").integer(head.created_s);
  json.key("model").string(head.model);
}

const char* chunk_object(const AnswerHead& head) {
  return head.endpoint == Endpoint::kChat ? "chat.completion.chunk" : "text_completion";
}

void write_ids(JsonWriter& json, const char* key, std::span<const uint32_t> ids) {
  json.key(key).begin_array();
  for (const uint32_t id : ids) json.unsigned_integer(id);
  json.end_array();
}

// Everything of a choice but its text.
void write_choice_rest(JsonWriter& json, const AnswerHead& head, const AnswerPart& part) {
  json.key("logprobs").null();
  json.key("finish_reason");
  if (part.finish_reason == nullptr) {
    json.null();
  } else {
    json.string(part.finish_reason);
  }
  if (!head.with_token_ids) return;
  write_ids(json, "token_ids", part.token_ids);
  if (part.first) write_ids(json, "prompt_token_ids", part.prompt_token_ids);
}

void write_usage(JsonWriter& json, const request::Usage& usage) {
  json.key("usage").begin_object();
  json.key("prompt_tokens").unsigned_integer(usage.prompt_tokens);
  json.key("completion_tokens").unsigned_integer(usage.completion_tokens);
  json.key("total_tokens").unsigned_integer(uint64_t{usage.prompt_tokens} +
                                            usage.completion_tokens);
  json.key("prompt_tokens_details").begin_object();
  json.key("cached_tokens").unsigned_integer(usage.cached_tokens);
  json.end_object().end_object();
}

void write_trace(JsonWriter& json, const request::Trace& trace) {
  json.key("tandem").begin_object();
  json.key("prefill_instance").string(trace.prefill_instance);
  json.key("decode_instance").string(trace.decode_instance);
  json.key("attempts").unsigned_integer(trace.attempts);
  json.key("epochs").unsigned_integer(trace.epochs);
  json.key("kv_bytes_moved").unsigned_integer(trace.kv_bytes_moved);
  if (trace.hidden_share >= 0) json.key("hidden_share").number(trace.hidden_share);
  json.key("decode_local_compute").unsigned_integer(trace.decode_local_compute);
  if (trace.ttft_s >= 0) json.key("ttft_ms").number(trace.ttft_s * 1e3);
  json.key("longest_gap_ms").number(trace.longest_gap_s * 1e3);
  if (trace.logits_digest != 0) json.key("logits_digest").string(hex16(trace.logits_digest));
  json.end_object();
}

void write_delta(JsonWriter& json, const AnswerPart& part) {
  json.key("delta").begin_object();
  if (part.first) json.key("role").string("assistant");
  if (part.first || !part.text.empty()) json.key("content").string(part.text);
  json.end_object();
}

}  // namespace

std::string answer_json(const AnswerHead& head, const AnswerPart& part,
                        const request::Usage& usage) {
  const bool chat = head.endpoint == Endpoint::kChat;
  JsonWriter json;
  json.begin_object();
  write_head(json, head, chat ? "chat.completion" : "text_completion");
  json.key("choices").begin_array().begin_object();
  json.key("index").integer(0);
  if (chat) {
    json.key("message").begin_object();
    json.key("role").string("assistant");
    json.key("content").string(part.text);
    json.end_object();
  } else {
    json.key("text").string(part.text);
  }
  write_choice_rest(json, head, part);
  json.end_object().end_array();
  write_usage(json, usage);
  if (part.trace != nullptr) write_trace(json, *part.trace);
  json.end_object();
  return std::move(json).take();
}

std::string chunk_event(const AnswerHead& head, const AnswerPart& part) {
  JsonWriter json;
  json.begin_object();
  write_head(json, head, chunk_object(head));
  json.key("choices").begin_array().begin_object();
  json.key("index").integer(0);
  if (head.endpoint == Endpoint::kChat) {
    write_delta(json, part);
  } else {
    json.key("text").string(part.text);
  }
  write_choice_rest(json, head, part);
  json.end_object().end_array();
  if (head.usage_key) json.key("usage").null();
  if (part.trace != nullptr) write_trace(json, *part.trace);
  json.end_object();
  return event(std::move(json).take());
}

std::string usage_event(const AnswerHead& head, const request::Usage& usage) {
  JsonWriter json;
  json.begin_object();
  write_head(json, head, chunk_object(head));
  json.key("choices").begin_array().end_array();
  write_usage(json, usage);
  json.end_object();
  return event(std::move(json).take());
}

std::string error_event(const ApiError& error) { return event(error_json(error)); }

}  // namespace tandem::gateway
