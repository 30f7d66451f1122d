#pragma once
// What the coordinator needs of the model file: text in, text out, and who may join.

#include <cstdint>
#include <optional>
#include <string>

#include "comm/topology/membership.h"
#include "configs/schema/config.h"
#include "coordinator/gateway/prompt.h"
#include "model/chat_template/chat_template.h"
#include "model/tokenizer/tokenizer.h"

namespace tandem::coordinator {

// Owned by the daemon; immutable once made.
struct ModelFiles {
  tokenizer::Tokenizer tokenizer;
  std::optional<chat_template::ChatTemplate> chat_template = {};
  std::string no_chat_reason = {};  // when there is no chat template that can be used
  uint32_t max_context = 0;       // tokens
  topology::Expected expected = {};  // of every instance that joins

  // A view that must not outlive this.
  gateway::ModelText text() const;
};

// Reads the file once, digest included. Throws StartupError. A missing or unusable chat template
// is no error: it only disables chat.
ModelFiles load_model_files(const config::Config& config);

}  // namespace tandem::coordinator
