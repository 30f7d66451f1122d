#pragma once
// The methods of strings and dicts that templates may call. Nothing that changes a value is here.

#include <string>

#include "model/chat_template/value.h"

namespace tandem::chat_template {

using Method = Value (*)(Interpreter& interpreter, const Value& self, const Arguments& arguments);

// nullptr when values of this kind have no such method.
Method find_method(const Value& self, const std::string& name);

}  // namespace tandem::chat_template
