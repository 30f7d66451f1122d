#include "coordinator/gateway/api_request.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "coordinator/gateway/fields.h"
#include "coordinator/gateway/unsupported.h"

namespace tandem::gateway {
namespace {

// Requires: valid UTF-8, which read_json() made sure of.
size_t num_characters(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

std::string at(const char* name, size_t index) {
  return std::string(name) + '[' + std::to_string(index) + ']';
}

// A list of ids below `limit`.
std::vector<uint32_t> read_ids(Fields& fields, const std::string& name, const Json& list,
                               uint32_t limit) {
  std::vector<uint32_t> ids;
  ids.reserve(list.size());
  for (const Json& value : list) {
    const std::optional<uint64_t> id = as_unsigned(value, limit - 1);
    if (!id) {
      fields.fail(name, "must hold token ids from 0 to " + std::to_string(limit - 1) +
                            "; entry " + std::to_string(ids.size()) + " is not one");
      return {};
    }
    ids.push_back(static_cast<uint32_t>(*id));
  }
  return ids;
}

Status check_model(Fields& fields, std::string_view served_model) {
  const std::optional<std::string> model = fields.string("model");
  if (!model || *model == served_model) return {};
  return Error{ErrorCode::kNotFound,
               "model is not served here; this server has \"" + std::string(served_model) + "\"",
               "model"};
}

// Content is a string, null where a message may have none, or a list of text parts.
void check_content(Fields& message, bool may_be_absent) {
  const Json* content = message.find("content");
  if (!message.ok()) return;
  if (content == nullptr) {
    if (!may_be_absent) message.fail("content", "is required");
    return;
  }
  if (content->is_string()) return;
  if (!content->is_array()) return message.mistyped("content", "a string or a list", *content);
  for (size_t i = 0; i < content->size(); ++i) {
    const Json& part = (*content)[i];
    if (!part.is_object()) return message.mistyped(at("content", i), "an object", part);
    const auto type = part.find("type");
    if (type == part.end() || !type->is_string()) {
      return message.fail(at("content", i) + ".type", "must be a string");
    }
    if (*type != "text") {
      return message.unsupported(at("content", i) + ".type", "must be \"text\"");
    }
    const auto text = part.find("text");
    if (text == part.end() || !text->is_string()) {
      return message.fail(at("content", i) + ".text", "must be a string");
    }
  }
}

void refuse_message_field(Fields& message, const char* name) {
  const Json* value = message.find(name);
  if (value == nullptr || (value->is_array() && value->empty())) return;
  message.unsupported(name, "is not supported; leave it out");
}

std::optional<Error> check_message(const Json& value, const std::string& path) {
  Fields message(value, path + '.');
  const std::optional<std::string> role = message.string("role");
  if (!message.ok()) return message.error();
  if (!role) {
    message.fail("role", "is required");
    return message.error();
  }
  const bool tool = *role == "tool" || *role == "function";
  if (tool) {
    message.unsupported("role", "\"" + *role + "\" is not supported: this server has no tools");
  } else if (*role != "system" && *role != "developer" && *role != "user" &&
             *role != "assistant") {
    message.fail("role", "must be \"system\", \"developer\", \"user\" or \"assistant\"");
  }
  check_content(message, false);
  message.string("name");
  refuse_message_field(message, "tool_calls");
  refuse_message_field(message, "function_call");
  refuse_message_field(message, "audio");
  return message.error();
}

void read_messages(Fields& fields, ApiRequest& request, std::optional<Error>& nested) {
  const Json* messages = fields.list("messages");
  if (!fields.ok()) return;
  if (messages == nullptr) return fields.fail("messages", "is required");
  if (messages->empty()) return fields.fail("messages", "must not be empty");
  if (messages->size() > kMaxMessages) {
    return fields.fail("messages", "must hold at most " + std::to_string(kMaxMessages));
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    const Json& message = (*messages)[i];
    if (!message.is_object()) return fields.mistyped(at("messages", i), "an object", message);
    nested = check_message(message, at("messages", i));
    if (nested) return;
  }
  request.messages = *messages;
}

// text | [text] | ids | [ids]; an empty list is an empty prompt.
void read_prompt(Fields& fields, uint32_t vocabulary_size, ApiRequest& request) {
  const Json* prompt = fields.find("prompt");
  if (!fields.ok()) return;
  if (prompt == nullptr) return fields.fail("prompt", "is required");
  if (prompt->is_array() && !prompt->empty() && !prompt->front().is_number()) {
    if (prompt->size() > 1) {
      const bool batch = std::all_of(prompt->begin(), prompt->end(), [](const Json& entry) {
        return entry.is_string() || entry.is_array();
      });
      if (batch) return fields.unsupported("prompt", "with several prompts is not supported");
      return fields.fail("prompt", "must be a string or a list of token ids");
    }
    prompt = &prompt->front();
  }
  if (prompt->is_string()) {
    request.prompt = prompt->get<std::string>();
  } else if (prompt->is_array()) {
    request.prompt = read_ids(fields, "prompt", *prompt, vocabulary_size);
  } else {
    fields.mistyped("prompt", "a string or a list of token ids", *prompt);
  }
}

void read_max_tokens(Fields& fields, ApiRequest& request) {
  constexpr uint64_t kHigh = std::numeric_limits<int32_t>::max();
  const auto old_name = fields.unsigned_integer("max_tokens", 1, kHigh);
  std::optional<uint64_t> new_name;
  if (request.endpoint == Endpoint::kChat) {
    new_name = fields.unsigned_integer("max_completion_tokens", 1, kHigh);
  }
  if (old_name && new_name && *old_name != *new_name) {
    return fields.fail("max_tokens", "and max_completion_tokens say different things");
  }
  if (new_name) request.max_tokens_name = "max_completion_tokens";
  const std::optional<uint64_t> either = new_name ? new_name : old_name;
  if (either) request.max_tokens = static_cast<uint32_t>(*either);
}

void read_seed(Fields& fields, ApiRequest& request) {
  const Json* seed = fields.find("seed");
  if (seed == nullptr) return;
  // Any 64 bits, signed or not.
  if (seed->is_number_unsigned()) {
    request.seed = seed->get<uint64_t>();
  } else if (seed->is_number_integer()) {
    request.seed = static_cast<uint64_t>(seed->get<int64_t>());
  } else {
    fields.fail("seed", "must be an integer of at most 64 bits");
  }
}

void read_sampling(Fields& fields, ApiRequest& request) {
  const auto temperature = fields.number("temperature", {.low = 0, .high = 2});
  const auto top_p = fields.number("top_p", {.low = 0, .high = 1, .low_open = true});
  const auto min_p = fields.number("min_p", {.low = 0, .high = 1});
  const auto top_k = fields.integer("top_k", -1, std::numeric_limits<int32_t>::max());
  request.temperature = static_cast<float>(temperature.value_or(1));
  // A positive double may be zero as a float.
  request.top_p = std::max(static_cast<float>(top_p.value_or(1)),
                           std::numeric_limits<float>::min());
  request.min_p = static_cast<float>(min_p.value_or(0));
  request.top_k = static_cast<int32_t>(std::max<int64_t>(top_k.value_or(0), 0));
  read_seed(fields, request);
}

void read_stop_string(Fields& fields, const std::string& name, const Json& value,
                      ApiRequest& request) {
  if (!value.is_string()) return fields.mistyped(name, "a string", value);
  const auto& text = value.get_ref<const std::string&>();
  const size_t characters = num_characters(text);
  if (characters < 1 || characters > kMaxStopCharacters) {
    return fields.fail(name, "must have 1 to " + std::to_string(kMaxStopCharacters) +
                                 " characters, not " + std::to_string(characters));
  }
  request.stop.push_back(text);
}

void read_stop(Fields& fields, uint32_t vocabulary_size, ApiRequest& request) {
  if (const Json* stop = fields.find("stop")) {
    if (!stop->is_array()) {
      if (!stop->is_string()) return fields.mistyped("stop", "a string or a list", *stop);
      read_stop_string(fields, "stop", *stop, request);
    } else if (stop->size() > kMaxStopStrings) {
      return fields.fail("stop", "must hold at most " + std::to_string(kMaxStopStrings) +
                                     " strings");
    } else {
      for (size_t i = 0; i < stop->size() && fields.ok(); ++i) {
        read_stop_string(fields, at("stop", i), (*stop)[i], request);
      }
    }
  }
  if (const Json* ids = fields.list("stop_token_ids")) {
    if (ids->size() > kMaxStopTokenIds) {
      return fields.fail("stop_token_ids",
                         "must hold at most " + std::to_string(kMaxStopTokenIds) + " ids");
    }
    request.stop_token_ids = read_ids(fields, "stop_token_ids", *ids, vocabulary_size);
  }
  request.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  request.include_stop_text = fields.boolean("include_stop_str_in_output").value_or(false);
}

void read_output(Fields& fields, ApiRequest& request, std::optional<Error>& nested) {
  request.stream = fields.boolean("stream").value_or(false);
  request.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  request.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  fields.string("user");
  const Json* options = fields.object("stream_options");
  if (options == nullptr) return;
  if (!request.stream) {
    return fields.fail("stream_options", "is only allowed when stream is true");
  }
  Fields stream_options(*options, "stream_options.");
  request.include_usage = stream_options.boolean("include_usage").value_or(false);
  if (stream_options.boolean("continuous_usage_stats").value_or(false)) {
    stream_options.unsupported("continuous_usage_stats", "is not supported; leave it out");
  }
  nested = stream_options.error();
}

}  // namespace

Result<ApiRequest> parse_api_request(Endpoint endpoint, std::string_view body,
                                     std::string_view served_model, uint32_t vocabulary_size) {
  const Result<Json> json = read_json_object(body);
  if (!json.ok()) return json.error();
  Fields fields(*json);
  ApiRequest request;
  request.endpoint = endpoint;
  std::optional<Error> nested;
  const Status model = check_model(fields, served_model);
  if (!model.ok()) return model.error();
  if (endpoint == Endpoint::kChat) {
    read_messages(fields, request, nested);
    request.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  } else {
    read_prompt(fields, vocabulary_size, request);
  }
  if (!nested) {
    read_max_tokens(fields, request);
    read_sampling(fields, request);
    read_stop(fields, vocabulary_size, request);
    read_output(fields, request, nested);
    refuse_unsupported(fields);
  }
  if (fields.error()) return *fields.error();
  if (nested) return *nested;
  return request;
}

}  // namespace tandem::gateway
