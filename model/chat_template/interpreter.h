#pragma once
// Runs one parsed template over one set of variables.

#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/chat_template/ast.h"
#include "model/chat_template/render_limits.h"
#include "model/chat_template/template_error.h"
#include "model/chat_template/value.h"

namespace tandem::chat_template {

class Namespace;

// The names of one block, looked up from the inside out.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::map<std::string, Value, std::less<>> names;
};
using ScopePtr = std::shared_ptr<Scope>;

// Lives for one render call, on one thread. Throws TemplateError; no other effect outside.
// Every step of evaluation and every byte of a value it makes is charged against the limits.
class Interpreter {
 public:
  Interpreter(const RenderLimits& limits, const std::tm& now) : limits_(limits), now_(now) {}
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;
  ~Interpreter();

  Text run(const Block& block, Dict variables);

  const std::tm& now() const { return now_; }

  // For filters and functions: account for work before doing it. Throws kLimit.
  void charge_steps(uint64_t num_steps);
  void charge_bytes(uint64_t size_bytes);
  // The text of {{ value }}, charged.
  Text to_text(const Value& value);
  // The items a loop over value would see; a TypeError when it can't be iterated. Charged.
  Values iterate(const Value& value);
  // A new object; objects that may hold each other are taken apart at the end.
  Value make_namespace(Dict attributes);
  // value.name, and value[key] for everything but slices. Undefined when there is none.
  Value attribute(const Value& value, const std::string& name);
  Value item(const Value& value, const Value& key);
  // Calls a macro or function value; error_name is for the message when it can't be called.
  Value call(const Value& callee, const Arguments& arguments, const std::string& error_name);
  Value call_macro(const Statement& macro, const ScopePtr& scope, const Arguments& arguments,
                   const Value* caller);

 private:
  friend class Depth;
  enum class Flow { kNormal, kBreak, kContinue };

  Flow run_block(const Block& block, const ScopePtr& scope, Text& out);
  Flow run_statement(const Statement& statement, const ScopePtr& scope, Text& out);
  Flow run_for(const Statement& statement, const ScopePtr& scope, Text& out);
  Flow run_if(const Statement& statement, const ScopePtr& scope, Text& out);
  Flow run_with(const Statement& statement, const ScopePtr& scope, Text& out);
  void run_call(const Statement& statement, const ScopePtr& scope, Text& out);
  Text run_to_text(const Block& block, const ScopePtr& scope);
  Value filter_block(const Expression& filters, Text text, const ScopePtr& scope);
  Value make_macro(const Statement& statement, const ScopePtr& scope);
  void assign(const Target& target, Value value, const ScopePtr& scope);
  void emit(const Text& text, Text& out);

  Value evaluate(const Expression& node, const ScopePtr& scope);
  Value evaluate_inner(const Expression& node, const ScopePtr& scope);
  Value evaluate_slice(const Expression& node, const ScopePtr& scope);
  Value evaluate_call(const Expression& node, const ScopePtr& scope, const Value* caller);
  Value evaluate_compare(const Expression& node, const ScopePtr& scope);
  Value evaluate_sequence(const Expression& node, const ScopePtr& scope);
  Value evaluate_dict(const Expression& node, const ScopePtr& scope);
  Value evaluate_concat(const Expression& node, const ScopePtr& scope);
  Value look_up(const std::string& name, const ScopePtr& scope);
  Arguments evaluate_arguments(const Expression& node, const ScopePtr& scope);

  RenderLimits limits_;
  std::tm now_;
  uint64_t steps_ = 0;
  uint64_t bytes_ = 0;
  int depth_ = 0;
  std::vector<Text> block_texts_;             // of the filter blocks being evaluated
  std::vector<std::weak_ptr<Scope>> cyclic_scopes_;  // they hold macros, which hold them
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

// One level of nested evaluation.
class Depth {
 public:
  explicit Depth(Interpreter& interpreter) : interpreter_(interpreter) {
    if (++interpreter_.depth_ <= interpreter_.limits_.max_depth) return;
    throw TemplateError{TemplateError::Kind::kLimit, "the template nests too deeply", 0};
  }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;
  ~Depth() { --interpreter_.depth_; }

 private:
  Interpreter& interpreter_;
};

}  // namespace tandem::chat_template
