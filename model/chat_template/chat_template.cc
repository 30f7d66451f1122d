#include "model/chat_template/chat_template.h"

#include <nlohmann/json.hpp>

#include <utility>

#include "model/chat_template/interpreter.h"
#include "model/chat_template/json_value.h"
#include "model/chat_template/parser.h"
#include "model/chat_template/template_error.h"
#include "model/tokenizer/utf8.h"

namespace tandem::chat_template {
namespace {

constexpr size_t kMaxSourceBytes = size_t{1} << 20;

Error parse_error(const TemplateError& error) {
  const bool unsupported = error.kind == TemplateError::Kind::kUnsupported;
  return {unsupported ? ErrorCode::kUnsupported : ErrorCode::kCorrupt,
          "chat template: " + error.message + " at line " + std::to_string(error.line),
          "tokenizer.chat_template"};
}

Error render_error(const TemplateError& error) {
  std::string message = error.message;
  if (error.kind != TemplateError::Kind::kRaised) {
    const std::string where = error.line > 0 ? ", line " + std::to_string(error.line) : "";
    message = "chat template" + where + ": " + message;
  }
  return {ErrorCode::kInvalidArgument, std::move(message), "messages"};
}

void add_variables(const nlohmann::ordered_json& json, Origin origin, Dict& variables) {
  CHECK(json.is_object());
  for (const auto& [name, value] : json.items()) {
    variables.set(name, value_from_json(value, origin));
  }
}

}  // namespace

struct ChatTemplate::Tree {
  Block block;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Tree> tree) : tree_(std::move(tree)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  const bool too_large = source.size() > kMaxSourceBytes;
  if (too_large || tokenizer::find_invalid_utf8(source) != source.size()) {
    return Error{ErrorCode::kCorrupt,
                 too_large ? "chat template larger than 1 MiB" : "chat template is not UTF-8",
                 "tokenizer.chat_template"};
  }
  try {
    return ChatTemplate(
        std::make_unique<const Tree>(Tree{.block = chat_template::parse(source)}));
  } catch (const TemplateError& error) {
    return parse_error(error);
  }
}

Result<tokenizer::RenderedPrompt> ChatTemplate::render(const RenderInput& input) const {
  try {
    Dict variables;
    add_variables(input.model, Origin::kMarkup, variables);
    add_variables(input.request, Origin::kContent, variables);
    Interpreter interpreter(input.limits, input.now);
    return interpreter.run(tree_->block, std::move(variables)).rendered();
  } catch (const TemplateError& error) {
    return render_error(error);
  }
}

}  // namespace tandem::chat_template
