#pragma once
// From a checked request to the token ids the cluster sees, and whether they fit.

#include <cstdint>
#include <string>
#include <vector>

#include "comm/runtime/result.h"
#include "coordinator/gateway/api_request.h"
#include "model/chat_template/chat_template.h"
#include "model/tokenizer/tokenizer.h"

namespace tandem::gateway {

// What a model's files say about text. Refers to objects of main; outlives the gateway.
struct ModelText {
  const tokenizer::Tokenizer& tokenizer;
  const chat_template::ChatTemplate* chat_template = nullptr;   // null: no chat
  std::string no_chat_reason;                                   // why, when null
  uint32_t max_context = 0;                                     // tokens
};

// The longest token of a vocabulary in bytes: a text of n bytes has at least n / this tokens.
size_t max_token_bytes(const tokenizer::Tokenizer& tokenizer);

// The ids of the prompt, at least one. kInvalidArgument: an empty prompt for a model without BOS, a
// conversation the template refuses; kUnsupported: chat without a usable template;
// kExhausted: longer than the context (found before tokenising when the bytes alone say so).
// unix_time_s is what templates that write a date see, in local time.
Result<std::vector<uint32_t>> build_prompt(const ApiRequest& request, const ModelText& model,
                                           size_t max_bytes_per_token, int64_t unix_time_s);

// The output tokens of the request: what it asked for, or the default: 16 for completions, all that
// is left for chat, both cut to what fits the context and `pool_tokens` (0: unknown).
// kExhausted when the prompt fills the context or prompt + max_tokens exceed it.
Result<uint32_t> resolve_max_tokens(const ApiRequest& request, size_t num_prompt_tokens,
                                    uint32_t max_context, uint32_t pool_tokens);

}  // namespace tandem::gateway
