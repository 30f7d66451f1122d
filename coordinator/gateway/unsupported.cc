#include "coordinator/gateway/unsupported.h"

#include <string>

namespace tandem::gateway {
namespace {

// What a field must hold to count as absent.
enum class Neutral {
  kNothing,      // only null
  kFalse,        // false
  kZero,         // the number 0
  kOne,          // the number 1
  kEmpty,        // an empty list, object or string
};

struct Rule {
  const char* name;
  Neutral neutral;
};

// Penalties, logit_bias and the like are checked for shape first (refuse_penalties).
constexpr Rule kRules[] = {
    {"best_of", Neutral::kOne},
    {"tools", Neutral::kEmpty},
    {"functions", Neutral::kEmpty},
    {"suffix", Neutral::kEmpty},
    {"echo", Neutral::kFalse},
    {"top_logprobs", Neutral::kZero},
    {"prompt_logprobs", Neutral::kNothing},
    {"audio", Neutral::kNothing},
    {"web_search_options", Neutral::kNothing},
    {"continue_final_message", Neutral::kFalse},
    {"chat_template", Neutral::kNothing},
    {"chat_template_kwargs", Neutral::kEmpty},
    {"documents", Neutral::kEmpty},
    {"use_beam_search", Neutral::kFalse},
    {"length_penalty", Neutral::kOne},
    {"min_tokens", Neutral::kZero},
    {"n_probs", Neutral::kZero},
    {"typical_p", Neutral::kOne},
    {"tfs_z", Neutral::kOne},
    {"mirostat", Neutral::kZero},
    {"dry_multiplier", Neutral::kZero},
    {"xtc_probability", Neutral::kZero},
    {"dynatemp_range", Neutral::kZero},
    {"bad_words", Neutral::kEmpty},
    {"allowed_token_ids", Neutral::kNothing},
    {"logits_processors", Neutral::kEmpty},
    {"truncate_prompt_tokens", Neutral::kNothing},
    {"guided_json", Neutral::kNothing},
    {"guided_regex", Neutral::kNothing},
    {"guided_choice", Neutral::kNothing},
    {"guided_grammar", Neutral::kNothing},
    {"structured_outputs", Neutral::kNothing},
    {"json_schema", Neutral::kNothing},
    {"grammar", Neutral::kNothing},
    {"prompt_embeds", Neutral::kNothing},
    {"lora_request", Neutral::kNothing},
};

bool is_number(const Json& value, double wanted) {
  return value.is_number() && value.get<double>() == wanted;
}

bool is_flag(const Json& value, bool wanted) {
  return value.is_boolean() && value.get<bool>() == wanted;
}

bool is_empty(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_structured() && value.empty();
}

bool is_neutral(const Json& value, Neutral neutral) {
  switch (neutral) {
    case Neutral::kNothing: return false;
    case Neutral::kFalse: return is_flag(value, false);
    case Neutral::kZero: return is_number(value, 0);
    case Neutral::kOne: return is_number(value, 1);
    case Neutral::kEmpty: return is_empty(value);
  }
  return false;
}

const char* neutral_text(Neutral neutral) {
  switch (neutral) {
    case Neutral::kNothing: return "leave it out";
    case Neutral::kFalse: return "leave it out or send false";
    case Neutral::kZero: return "leave it out or send 0";
    case Neutral::kOne: return "leave it out or send 1";
    case Neutral::kEmpty: return "leave it out or send it empty";
  }
  return "leave it out";
}

void refuse(Fields& fields, const char* name, const char* remedy) {
  fields.unsupported(name, std::string("is not supported; ") + remedy);
}

// A penalty out of its range is a mistake of the client's; inside it, something we can't do.
void refuse_penalty(Fields& fields, const char* name, const NumberRange& range, double neutral) {
  const std::optional<double> value = fields.number(name, range);
  if (value && *value != neutral) {
    refuse(fields, name, neutral_text(neutral == 0 ? Neutral::kZero : Neutral::kOne));
  }
}

void refuse_choices(Fields& fields) {
  const std::optional<int64_t> n = fields.integer("n", 1, 128);
  if (n && *n != 1) refuse(fields, "n", neutral_text(Neutral::kOne));
}

void refuse_logprobs(Fields& fields) {
  // Chat has a boolean here, completions a number whose 0 asks for the sampled token's.
  const Json* value = fields.find("logprobs");
  if (value == nullptr || is_flag(*value, false)) return;
  if (!value->is_boolean() && !value->is_number()) {
    fields.mistyped("logprobs", "a boolean or a number", *value);
    return;
  }
  refuse(fields, "logprobs", "leave it out or send false");
}

void refuse_response_format(Fields& fields) {
  const Json* format = fields.object("response_format");
  if (format == nullptr) return;
  const auto type = format->find("type");
  if (type == format->end() || !type->is_string()) {
    fields.fail("response_format.type", "must be a string");
  } else if (*type != "text") {
    refuse(fields, "response_format", "leave it out or send {\"type\": \"text\"}");
  }
}

void refuse_choice_of(Fields& fields, const char* name) {
  const Json* choice = fields.find(name);
  if (choice == nullptr || *choice == "none" || *choice == "auto") return;
  refuse(fields, name, "leave it out or send \"none\" or \"auto\"");
}

void refuse_modalities(Fields& fields) {
  const Json* modalities = fields.list("modalities");
  if (modalities == nullptr) return;
  for (const Json& modality : *modalities) {
    if (modality != "text") {
      refuse(fields, "modalities", "leave it out or send [\"text\"]");
      return;
    }
  }
}

}  // namespace

void refuse_unsupported(Fields& fields) {
  refuse_choices(fields);
  refuse_penalty(fields, "presence_penalty", {.low = -2, .high = 2}, 0);
  refuse_penalty(fields, "frequency_penalty", {.low = -2, .high = 2}, 0);
  refuse_penalty(fields, "repetition_penalty", {.low = 0, .high = 100, .low_open = true}, 1);
  const Json* bias = fields.object("logit_bias");
  if (bias != nullptr && !bias->empty()) {
    refuse(fields, "logit_bias", neutral_text(Neutral::kEmpty));
  }
  refuse_logprobs(fields);
  refuse_response_format(fields);
  refuse_choice_of(fields, "tool_choice");
  refuse_choice_of(fields, "function_call");
  refuse_modalities(fields);
  for (const Rule& rule : kRules) {
    const Json* value = fields.find(rule.name);
    if (value != nullptr && !is_neutral(*value, rule.neutral)) {
      refuse(fields, rule.name, neutral_text(rule.neutral));
    }
  }
}

}  // namespace tandem::gateway
