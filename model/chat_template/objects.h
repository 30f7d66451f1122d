#pragma once
// The things with identity that a template meets: namespaces, functions and loops.

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "model/chat_template/value.h"

namespace tandem::chat_template {

// namespace(…), and anything that is a bag of attributes.
class Namespace final : public Object {
 public:
  Namespace(std::string type_name, Dict attributes)
      : type_name_(std::move(type_name)), attributes_(std::move(attributes)) {}
  std::string type_name() const override { return type_name_; }
  std::optional<Value> attribute(const std::string& name) override;
  bool set_attribute(const std::string& name, Value value) override;
  std::optional<Value> call(Interpreter&, const Arguments&) override { return std::nullopt; }
  bool callable() const override { return false; }
  void clear() { attributes_ = Dict(); }

 private:
  std::string type_name_;
  Dict attributes_;
};

class Function final : public Object {
 public:
  using Body = std::function<Value(Interpreter&, const Arguments&)>;
  Function(std::string name, Body body) : name_(std::move(name)), body_(std::move(body)) {}
  std::string type_name() const override { return "function " + name_; }
  std::optional<Value> attribute(const std::string& name) override;
  bool set_attribute(const std::string&, Value) override { return false; }
  std::optional<Value> call(Interpreter& interpreter, const Arguments& arguments) override {
    return body_(interpreter, arguments);
  }
  bool callable() const override { return true; }

 private:
  std::string name_;
  Body body_;
};

Value make_function(std::string name, Function::Body body);

// The variable `loop` inside a for block; shared by all its rounds.
class Loop final : public Object {
 public:
  explicit Loop(Values items) : items_(std::move(items)) {}
  std::string type_name() const override { return "LoopContext"; }
  std::optional<Value> attribute(const std::string& name) override;
  bool set_attribute(const std::string&, Value) override { return false; }
  std::optional<Value> call(Interpreter&, const Arguments&) override { return std::nullopt; }
  bool callable() const override { return false; }

  const Values& items() const { return items_; }
  void move_to(size_t index) { index_ = index; }
  // The loop is over: what still refers to it sees an empty one.
  void finish() {
    items_.clear();
    index_ = 0;
  }

 private:
  Values items_;
  size_t index_ = 0;
};

// The functions every template can call; nullopt for an unknown name.
std::optional<Value> find_global(const std::string& name);

}  // namespace tandem::chat_template
