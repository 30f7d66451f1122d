#pragma once
// Values of the template language: Python's, as far as templates see them.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "model/chat_template/text.h"

namespace tandem::chat_template {

class Dict;
class Interpreter;
class Object;
class Value;

using Values = std::vector<Value>;

// Immutable and cheap to copy; only an Object has state. Nothing here knows the interpreter.
class Value {
 public:
  enum class Kind {
    kUndefined, kNone, kBool, kInt, kFloat, kString, kList, kTuple, kDict, kObject
  };

  Value() : data_(None{}) {}
  // why: the message when somebody uses it in a way that undefined values do not allow.
  static Value undefined(std::string why);
  static Value boolean(bool value) { return Value(value); }
  static Value integer(int64_t value) { return Value(value); }
  static Value real(double value) { return Value(value); }
  static Value string(Text text);
  static Value list(Values items);
  static Value tuple(Values items);
  static Value dict(Dict dict);
  static Value object(std::shared_ptr<Object> object);

  Kind kind() const;
  bool is(Kind kind_wanted) const { return kind() == kind_wanted; }
  bool is_sequence() const { return is(Kind::kList) || is(Kind::kTuple); }
  // bool counts as a number, as in Python.
  bool is_number() const;
  bool is_integer() const { return is(Kind::kInt) || is(Kind::kBool); }

  // Each requires the kind it names.
  const std::string& why_undefined() const;
  bool as_bool() const { return std::get<bool>(data_); }
  int64_t as_int() const;   // kInt, kBool
  double as_real() const;   // any number
  const Text& as_text() const;
  const std::string& as_bytes() const { return as_text().bytes(); }
  const Values& as_items() const;  // kList, kTuple
  const Dict& as_dict() const;
  Object& as_object() const;

  // Lists and dicts inside each other; the constructors throw TemplateError (kLimit) beyond
  // kMaxDepth, so that every recursion over a value is bounded. Objects count as leaves.
  static constexpr int kMaxDepth = 100;
  int depth() const;

  bool truthy() const;
  // "str", "int", "list", …: Python's names, for messages.
  std::string type_name() const;

 private:
  struct None {};
  struct Undefined {
    std::shared_ptr<const std::string> why;
  };
  struct Sequence {
    bool is_tuple = false;
    int depth = 1;
    Values items;
  };
  static Value sequence(bool is_tuple, Values items);
  using Data = std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>,
                            std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>,
                            std::shared_ptr<Object>>;
  template <typename T>
  explicit Value(T data) : data_(std::move(data)) {}

  Data data_;
};

// Keeps insertion order. Keys are strings, integers or none; the last value of a key counts.
class Dict {
 public:
  void set(Value key, Value value);
  void set(std::string_view key, Value value);
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  const std::vector<std::pair<Value, Value>>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  int depth() const { return depth_; }

 private:
  std::vector<std::pair<Value, Value>> entries_;
  int depth_ = 1;
  std::unordered_map<std::string, size_t> index_;  // tagged spelling of the key -> entry
};

// Arguments of a call, a filter or a test.
struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;

  // By position or by name; nullptr when not given.
  const Value* find(size_t position, std::string_view name) const;
};

// Something with identity: a function, a namespace, a loop. Lives inside one render call.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string type_name() const = 0;
  virtual std::optional<Value> attribute(const std::string& name) = 0;
  // False when attributes can't be set.
  virtual bool set_attribute(const std::string& name, Value value) = 0;
  // nullopt when it can't be called.
  virtual std::optional<Value> call(Interpreter& interpreter, const Arguments& arguments) = 0;
  virtual bool callable() const = 0;
};

// Python's ==; values of unlike kinds differ.
bool equal(const Value& a, const Value& b);

}  // namespace tandem::chat_template
