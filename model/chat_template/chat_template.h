#pragma once
// The chat template of a model: Jinja source in, prompts with provenance out.

#include <nlohmann/json_fwd.hpp>

#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include "comm/runtime/result.h"
#include "model/chat_template/render_limits.h"
#include "model/tokenizer/rendered_prompt.h"

namespace tandem::chat_template {

// What one rendering sees. Both are JSON objects from variable names to values; a name that is
// absent is undefined in the template, null is none.
struct RenderInput {
  // What came with the request: messages, tools, add_generation_prompt, … Every string in it,
  // keys and roles included, is content.
  const nlohmann::ordered_json& request;
  // What the model's own files say: bos_token, eos_token, … Strings are markup.
  const nlohmann::ordered_json& model;
  std::tm now{};  // local time, for strftime_now
  RenderLimits limits{};
};

// Whatever a string of the request is put through (filters, slices, concatenation), its bytes stay
// content; literals of the template are markup. Immutable after parse(): render() may run on any
// thread. Never reads anything but its input, never loops without bound (RenderLimits).
//
// The language is the part of Jinja 2 that chat templates use, with trim_blocks, lstrip_blocks,
// loop controls and {% generation %} as Hugging Face's renderer sets them. Not there: inheritance,
// includes, recursive loops, autoescape, *args in calls, integers beyond 64 bits.
class ChatTemplate {
 public:
  // kUnsupported: "unsupported construct X at line N"; kCorrupt: a syntax error, with its line.
  // Either one disables chat only.
  static Result<ChatTemplate> parse(std::string_view source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // kInvalidArgument (field "messages") when the template refuses or can't take this request:
  //   raise_exception(text)      message is the text itself
  //   type errors and the like   "chat template, line N: TypeError: …"
  //   a limit is exceeded        "chat template, line N: …"
  // Also kInvalidArgument when a value of the request is nested too deeply or is not UTF-8.
  // Requires: both inputs are JSON objects.
  Result<tokenizer::RenderedPrompt> render(const RenderInput& input) const;

 private:
  struct Tree;
  explicit ChatTemplate(std::unique_ptr<const Tree> tree);
  std::unique_ptr<const Tree> tree_;
};

}  // namespace tandem::chat_template
