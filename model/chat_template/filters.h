#pragma once
// Filters: `value | name(arguments)`.

#include <string>

#include "model/chat_template/ast.h"

namespace tandem::chat_template {

// nullptr for a name that is not known. The two tables live in filters_text.cc and
// filters_list.cc.
Filter find_filter(const std::string& name);
Filter find_text_filter(const std::string& name);
Filter find_list_filter(const std::string& name);

}  // namespace tandem::chat_template
