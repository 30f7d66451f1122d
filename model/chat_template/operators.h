#pragma once
// What the operators do: Python's rules. Failures are TemplateError (kRuntime) with Python's words.

#include <string>

#include "model/chat_template/value.h"

namespace tandem::chat_template {

// op: + - * / // % **
Value binary(Interpreter& interpreter, const std::string& op, const Value& left,
             const Value& right);
// op: - +
Value unary(const std::string& op, const Value& value);
// op: == != < <= > >= in, "not in"
bool compare(Interpreter& interpreter, const std::string& op, const Value& left,
             const Value& right);
// left < right for sorting; a TypeError for kinds that have no order.
bool less(const Value& left, const Value& right);
bool contains(Interpreter& interpreter, const Value& container, const Value& item);
// "%s and %d" with its values.
Value printf_format(Interpreter& interpreter, const Text& format, const Values& values);

}  // namespace tandem::chat_template
