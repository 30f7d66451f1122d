#pragma once
// Tests: `value is name(arguments)`.

#include <string>

#include "model/chat_template/ast.h"

namespace tandem::chat_template {

// nullptr for a name that is not known.
Test find_test(const std::string& name);

}  // namespace tandem::chat_template
