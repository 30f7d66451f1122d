// The expression half of Interpreter.
#include <algorithm>
#include <utility>

#include "comm/runtime/check.h"
#include "model/chat_template/interpreter.h"
#include "model/chat_template/methods.h"
#include "model/chat_template/objects.h"
#include "model/chat_template/operators.h"

namespace tandem::chat_template {

using Kind = Expression::Kind;

Value Interpreter::evaluate(const Expression& node, const ScopePtr& scope) {
  const Depth depth(*this);
  charge_steps(1);
  try {
    return evaluate_inner(node, scope);
  } catch (TemplateError& error) {
    if (error.line == 0) error.line = node.line;
    throw;
  }
}

Value Interpreter::evaluate_inner(const Expression& node, const ScopePtr& scope) {
  const auto operand = [&](size_t i) { return evaluate(*node.operands[i], scope); };
  switch (node.kind) {
    case Kind::kConstant: return node.constant;
    case Kind::kName: return look_up(node.name, scope);
    case Kind::kAttribute: return attribute(operand(0), node.name);
    case Kind::kItem: {
      const Value owner = operand(0);
      return item(owner, operand(1));
    }
    case Kind::kSlice: return evaluate_slice(node, scope);
    case Kind::kCall: return evaluate_call(node, scope, nullptr);
    case Kind::kFilter: {
      const Value input = operand(0);
      return node.filter(*this, input, evaluate_arguments(node, scope));
    }
    case Kind::kTest: {
      const Value input = operand(0);
      return Value::boolean(node.test(*this, input, evaluate_arguments(node, scope)));
    }
    case Kind::kUnary:
      if (node.name == "not") return Value::boolean(!operand(0).truthy());
      return unary(node.name, operand(0));
    case Kind::kBinary: {
      const Value left = operand(0);
      return binary(*this, node.name, left, operand(1));
    }
    case Kind::kCompare: return evaluate_compare(node, scope);
    case Kind::kAnd: {
      Value left = operand(0);
      return left.truthy() ? operand(1) : left;
    }
    case Kind::kOr: {
      Value left = operand(0);
      return left.truthy() ? left : operand(1);
    }
    case Kind::kConcat: return evaluate_concat(node, scope);
    case Kind::kConditional:
      if (operand(1).truthy()) return operand(0);
      if (node.operands[2] != nullptr) return operand(2);
      return Value::undefined("the inline if-expression evaluated to false and has no else");
    case Kind::kList:
    case Kind::kTuple: return evaluate_sequence(node, scope);
    case Kind::kDict: return evaluate_dict(node, scope);
    case Kind::kBlockText: return Value::string(block_texts_.back());
  }
  check_failed(__FILE__, __LINE__, "unreachable");
}

Value Interpreter::evaluate_sequence(const Expression& node, const ScopePtr& scope) {
  Values items;
  items.reserve(node.operands.size());
  for (const ExpressionPtr& operand : node.operands) items.push_back(evaluate(*operand, scope));
  return node.kind == Kind::kTuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

Value Interpreter::evaluate_dict(const Expression& node, const ScopePtr& scope) {
  Dict dict;
  for (size_t i = 0; i + 1 < node.operands.size(); i += 2) {
    Value key = evaluate(*node.operands[i], scope);
    if (key.is_sequence() || key.is(Value::Kind::kDict) || key.is(Value::Kind::kObject)) {
      fail("TypeError: unhashable type: '" + key.type_name() + "'");
    }
    dict.set(std::move(key), evaluate(*node.operands[i + 1], scope));
  }
  return Value::dict(std::move(dict));
}

Value Interpreter::evaluate_concat(const Expression& node, const ScopePtr& scope) {
  std::vector<Text> parts;
  bool html = false;
  for (const ExpressionPtr& operand : node.operands) {
    parts.push_back(to_text(evaluate(*operand, scope)));
    html = html || parts.back().is_html();
  }
  Text text;
  for (const Text& part : parts) text.append(html ? html_escaped(part) : part);
  if (html) text.mark_html();
  charge_bytes(text.size_bytes());
  return Value::string(std::move(text));
}

Value Interpreter::evaluate_compare(const Expression& node, const ScopePtr& scope) {
  Value left = evaluate(*node.operands[0], scope);
  for (size_t i = 0; i < node.names.size(); ++i) {
    Value right = evaluate(*node.operands[i + 1], scope);
    if (!compare(*this, node.names[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::evaluate_slice(const Expression& node, const ScopePtr& scope) {
  const Value owner = evaluate(*node.operands[0], scope);
  std::optional<int64_t> bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (node.operands[i + 1] == nullptr) continue;
    const Value bound = evaluate(*node.operands[i + 1], scope);
    if (bound.is(Value::Kind::kNone)) continue;
    if (!bound.is_integer()) {
      fail("TypeError: slice indices must be integers or None, not " + bound.type_name());
    }
    bounds[i] = bound.as_int();
  }
  if (owner.is(Value::Kind::kUndefined)) fail(owner.why_undefined());
  const bool is_text = owner.is(Value::Kind::kString);
  if (!is_text && !owner.is_sequence()) {
    return Value::undefined("'" + owner.type_name() + "' object can't be sliced");
  }
  const Values items = iterate(owner);
  const auto size = static_cast<int64_t>(items.size());
  const int64_t step = bounds[2].value_or(1);
  if (step == 0) fail("ValueError: slice step cannot be zero");
  const auto clamp = [&](int64_t bound) {  // negative bounds count from the end
    const int64_t at = bound < 0 ? bound + size : bound;
    return std::clamp<int64_t>(at, step > 0 ? 0 : -1, step > 0 ? size : size - 1);
  };
  const int64_t begin = bounds[0] ? clamp(*bounds[0]) : step > 0 ? 0 : size - 1;
  const int64_t end = bounds[1] ? clamp(*bounds[1]) : step > 0 ? size : -1;
  Values kept;
  Text text;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    const Value& taken = items[static_cast<size_t>(i)];
    if (is_text) {
      text.append(taken.as_text());
    } else {
      kept.push_back(taken);
    }
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  if (is_text) return Value::string(std::move(text));
  return owner.is(Value::Kind::kTuple) ? Value::tuple(std::move(kept))
                                       : Value::list(std::move(kept));
}

Arguments Interpreter::evaluate_arguments(const Expression& node, const ScopePtr& scope) {
  Arguments arguments;
  for (size_t i = 1; i < node.operands.size(); ++i) {
    arguments.positional.push_back(evaluate(*node.operands[i], scope));
  }
  for (const auto& [name, expression] : node.named) {
    arguments.named.emplace_back(name, evaluate(*expression, scope));
  }
  return arguments;
}

Value Interpreter::evaluate_call(const Expression& node, const ScopePtr& scope,
                                 const Value* caller) {
  const Expression& callee = *node.operands[0];
  std::string name = callee.name;
  Value function;
  if (callee.kind == Kind::kAttribute) {
    const Value owner = evaluate(*callee.operands[0], scope);
    if (const Method method = find_method(owner, callee.name)) {
      return method(*this, owner, evaluate_arguments(node, scope));
    }
    function = attribute(owner, callee.name);
  } else {
    function = evaluate(callee, scope);
  }
  Arguments arguments = evaluate_arguments(node, scope);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  return call(function, arguments, name);
}

Value Interpreter::attribute(const Value& value, const std::string& name) {
  if (value.is(Value::Kind::kUndefined)) fail(value.why_undefined());
  if (find_method(value, name) != nullptr) {  // methods come before keys, and are only ever called
    return make_function(name, [name](Interpreter&, const Arguments&) -> Value {
      fail("the method '" + name + "' must be called where it is named");
    });
  }
  if (value.is(Value::Kind::kDict)) {
    if (const Value* found = value.as_dict().find(name)) return *found;
  }
  if (value.is(Value::Kind::kObject)) {
    if (auto found = value.as_object().attribute(name)) return *std::move(found);
  }
  return Value::undefined("'" + value.type_name() + " object' has no attribute '" + name + "'");
}

Value Interpreter::item(const Value& value, const Value& key) {
  if (value.is(Value::Kind::kUndefined)) fail(value.why_undefined());
  if (value.is(Value::Kind::kDict)) {
    if (const Value* found = value.as_dict().find(key)) return *found;
  } else if (key.is_integer() && (value.is_sequence() || value.is(Value::Kind::kString))) {
    const int64_t index = key.as_int();
    const std::vector<size_t> offsets = value.is_sequence()
                                            ? std::vector<size_t>()
                                            : character_offsets(value.as_bytes());
    charge_steps(offsets.size() / 64);
    const auto size = static_cast<int64_t>(value.is_sequence() ? value.as_items().size()
                                                               : offsets.size() - 1);
    const int64_t at = index < 0 ? index + size : index;
    if (at < 0 || at >= size) {
      return Value::undefined(value.type_name() + " object has no element " +
                              std::to_string(index));
    }
    const auto i = static_cast<size_t>(at);
    if (value.is_sequence()) return value.as_items()[i];
    return Value::string(value.as_text().slice(offsets[i], offsets[i + 1] - offsets[i]));
  }
  if (key.is(Value::Kind::kString)) return attribute(value, key.as_bytes());
  return Value::undefined(value.type_name() + " object has no such element");
}

}  // namespace tandem::chat_template
