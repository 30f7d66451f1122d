#include "model/chat_template/interpreter.h"

#include <utility>

#include "comm/runtime/check.h"
#include "model/chat_template/format.h"
#include "model/chat_template/objects.h"

namespace tandem::chat_template {

using Kind = Statement::Kind;

namespace {

constexpr uint64_t kScopeBytes = 128;      // rough cost of a scope or a namespace

ScopePtr inner_scope(const ScopePtr& parent) {
  auto scope = std::make_shared<Scope>();
  scope->parent = parent;
  return scope;
}

}  // namespace

Interpreter::~Interpreter() {
  // Oldest first, so that chains of objects fall apart link by link.
  for (const std::shared_ptr<Namespace>& object : namespaces_) object->clear();
  for (const std::weak_ptr<Scope>& weak : cyclic_scopes_) {
    if (const ScopePtr scope = weak.lock()) scope->names.clear();
  }
}

Text Interpreter::run(const Block& block, Dict variables) {
  const ScopePtr globals = std::make_shared<Scope>();
  for (const auto& [key, value] : variables.entries()) {
    globals->names.insert_or_assign(key.as_bytes(), value);
  }
  Text out;
  (void)run_block(block, globals, out);
  return out;
}

void Interpreter::charge_steps(uint64_t num_steps) {
  steps_ += num_steps;
  if (steps_ <= limits_.max_steps) return;
  throw TemplateError{TemplateError::Kind::kLimit, "the template takes too many steps", 0};
}

void Interpreter::charge_bytes(uint64_t size_bytes) {
  bytes_ += size_bytes;
  if (bytes_ <= limits_.max_bytes) return;
  throw TemplateError{TemplateError::Kind::kLimit, "the template makes too much text", 0};
}

Text Interpreter::to_text(const Value& value) {
  Text text = str_text(value, limits_.max_output_bytes);
  charge_bytes(text.size_bytes());
  return text;
}

Value Interpreter::make_namespace(Dict attributes) {
  charge_bytes(kScopeBytes);
  namespaces_.push_back(std::make_shared<Namespace>("Namespace", std::move(attributes)));
  return Value::object(namespaces_.back());
}

void Interpreter::emit(const Text& text, Text& out) {
  if (out.size_bytes() + text.size_bytes() > limits_.max_output_bytes) {
    throw TemplateError{TemplateError::Kind::kLimit, "the template's output is too large", 0};
  }
  charge_bytes(text.size_bytes());
  out.append(text);
}

Interpreter::Flow Interpreter::run_block(const Block& block, const ScopePtr& scope, Text& out) {
  for (const Statement& statement : block) {
    const Depth depth(*this);
    charge_steps(1);
    Flow flow = Flow::kNormal;
    try {
      flow = run_statement(statement, scope, out);
    } catch (TemplateError& error) {
      if (error.line == 0) error.line = statement.line;
      throw;
    }
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_statement(const Statement& statement, const ScopePtr& scope,
                                             Text& out) {
  switch (statement.kind) {
    case Kind::kData: emit(statement.text, out); break;
    case Kind::kOutput: emit(to_text(evaluate(*statement.expression, scope)), out); break;
    case Kind::kIf: return run_if(statement, scope, out);
    case Kind::kFor: return run_for(statement, scope, out);
    case Kind::kSet: assign(statement.target, evaluate(*statement.expression, scope), scope); break;
    case Kind::kSetBlock:
      assign(statement.target,
             filter_block(*statement.expression, run_to_text(statement.body, scope), scope), scope);
      break;
    case Kind::kMacro:
      scope->names.insert_or_assign(statement.name, make_macro(statement, scope));
      break;
    case Kind::kCallBlock: run_call(statement, scope, out); break;
    case Kind::kFilterBlock:
      emit(to_text(filter_block(*statement.expression, run_to_text(statement.body, scope), scope)),
           out);
      break;
    case Kind::kWith: return run_with(statement, scope, out);
    case Kind::kGroup: return run_block(statement.body, scope, out);
    case Kind::kBreak: return Flow::kBreak;
    case Kind::kContinue: return Flow::kContinue;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_if(const Statement& statement, const ScopePtr& scope,
                                      Text& out) {
  for (const Statement::Branch& branch : statement.branches) {
    if (evaluate(*branch.condition, scope).truthy()) return run_block(branch.body, scope, out);
  }
  return run_block(statement.alternative, scope, out);
}

Interpreter::Flow Interpreter::run_for(const Statement& statement, const ScopePtr& scope,
                                       Text& out) {
  Values items = iterate(evaluate(*statement.expression, scope));
  if (statement.condition != nullptr) {
    Values kept;
    for (Value& item : items) {
      const ScopePtr round = inner_scope(scope);
      assign(statement.target, item, round);
      if (evaluate(*statement.condition, round).truthy()) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  if (items.empty()) return run_block(statement.alternative, scope, out);
  const auto loop = std::make_shared<Loop>(std::move(items));
  const size_t count = loop->items().size();
  Flow flow = Flow::kNormal;
  for (size_t i = 0; i < count && flow != Flow::kBreak; ++i) {
    charge_steps(1);
    loop->move_to(i);
    const ScopePtr round = inner_scope(scope);
    round->names.emplace("loop", Value::object(loop));
    assign(statement.target, loop->items()[i], round);
    flow = run_block(statement.body, round, out);
  }
  loop->finish();
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_with(const Statement& statement, const ScopePtr& scope,
                                        Text& out) {
  const ScopePtr inside = inner_scope(scope);
  for (size_t i = 0; i < statement.with_values.size(); ++i) {
    assign(statement.with_targets[i], evaluate(*statement.with_values[i], scope), inside);
  }
  return run_block(statement.body, inside, out);
}

void Interpreter::run_call(const Statement& statement, const ScopePtr& scope, Text& out) {
  const Value caller = make_macro(statement, scope);
  emit(to_text(evaluate_call(*statement.expression, scope, &caller)), out);
}

Text Interpreter::run_to_text(const Block& block, const ScopePtr& scope) {
  Text text;
  (void)run_block(block, inner_scope(scope), text);
  return text;
}

Value Interpreter::filter_block(const Expression& filters, Text text, const ScopePtr& scope) {
  block_texts_.push_back(std::move(text));
  Value result = evaluate(filters, scope);
  block_texts_.pop_back();
  return result;
}

void Interpreter::assign(const Target& target, Value value, const ScopePtr& scope) {
  if (!target.attribute.empty()) {
    const Value owner = look_up(target.names[0], scope);
    if (!owner.is(Value::Kind::kObject) ||
        !owner.as_object().set_attribute(target.attribute, std::move(value))) {
      fail("cannot assign attribute on non-namespace object");
    }
    return;
  }
  if (!target.unpacks) {
    scope->names.insert_or_assign(target.names[0], std::move(value));
    return;
  }
  const Values items = iterate(value);
  if (items.size() != target.names.size()) {
    fail("ValueError: expected " + std::to_string(target.names.size()) + " values to unpack, got " +
         std::to_string(items.size()));
  }
  for (size_t i = 0; i < items.size(); ++i) {
    scope->names.insert_or_assign(target.names[i], items[i]);
  }
}

Value Interpreter::make_macro(const Statement& statement, const ScopePtr& scope) {
  cyclic_scopes_.push_back(scope);
  return make_function(statement.name, [&statement, scope](Interpreter& interpreter,
                                                           const Arguments& arguments) {
    const Value* caller = arguments.find(SIZE_MAX, "caller");
    return interpreter.call_macro(statement, scope, arguments, caller);
  });
}

Value Interpreter::call_macro(const Statement& macro, const ScopePtr& scope,
                              const Arguments& arguments, const Value* caller) {
  charge_bytes(kScopeBytes);
  const ScopePtr inside = inner_scope(scope);
  size_t used = 0;
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Statement::Parameter& parameter = macro.parameters[i];
    const Value* given = arguments.find(i, parameter.name);
    if (i < arguments.positional.size()) ++used;
    Value value = given != nullptr ? *given
                  : parameter.fallback != nullptr
                      ? evaluate(*parameter.fallback, inside)
                      : Value::undefined("parameter '" + parameter.name + "' was not provided");
    inside->names.insert_or_assign(parameter.name, std::move(value));
  }
  const auto& positional = arguments.positional;
  inside->names.emplace("varargs", Value::tuple(Values(
      positional.begin() + static_cast<std::ptrdiff_t>(used), positional.end())));
  Dict rest;
  for (const auto& [name, value] : arguments.named) {
    bool known = name == "caller";
    for (const auto& parameter : macro.parameters) known = known || parameter.name == name;
    if (!known) rest.set(name, value);
  }
  inside->names.emplace("kwargs", Value::dict(std::move(rest)));
  if (caller != nullptr) inside->names.insert_or_assign("caller", *caller);
  Text text;
  (void)run_block(macro.body, inside, text);
  return Value::string(std::move(text));
}

Value Interpreter::call(const Value& callee, const Arguments& arguments,
                        const std::string& error_name) {
  if (callee.is(Value::Kind::kUndefined)) fail(callee.why_undefined());
  if (callee.is(Value::Kind::kObject)) {
    if (auto result = callee.as_object().call(*this, arguments)) return *std::move(result);
  }
  fail("TypeError: '" + error_name + "' of type " + callee.type_name() + " is not callable");
}

Values Interpreter::iterate(const Value& value) {
  Values items;
  switch (value.kind()) {
    case Value::Kind::kUndefined: break;
    case Value::Kind::kList:
    case Value::Kind::kTuple: items = value.as_items(); break;
    case Value::Kind::kDict:
      for (const auto& [key, item] : value.as_dict().entries()) items.push_back(key);
      break;
    case Value::Kind::kString: {
      const std::vector<size_t> offsets = character_offsets(value.as_bytes());
      charge_steps(offsets.size());
      for (size_t i = 0; i + 1 < offsets.size(); ++i) {
        items.push_back(Value::string(
            value.as_text().slice(offsets[i], offsets[i + 1] - offsets[i])));
      }
      break;
    }
    default: fail("TypeError: '" + value.type_name() + "' object is not iterable");
  }
  charge_steps(items.size());
  return items;
}

Value Interpreter::look_up(const std::string& name, const ScopePtr& scope) {
  for (const Scope* at = scope.get(); at != nullptr; at = at->parent.get()) {
    const auto it = at->names.find(name);
    if (it != at->names.end()) return it->second;
  }
  if (auto global = find_global(name)) return *std::move(global);
  return Value::undefined("'" + name + "' is undefined");
}

}  // namespace tandem::chat_template
