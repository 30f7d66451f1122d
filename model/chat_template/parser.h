#pragma once
// Template source to its tree.

#include <string_view>

#include "model/chat_template/ast.h"

namespace tandem::chat_template {

// Throws TemplateError: kSyntax, or kUnsupported for tags, filters and tests that are not known.
// Requires: source is valid UTF-8.
Block parse(std::string_view source);

}  // namespace tandem::chat_template
