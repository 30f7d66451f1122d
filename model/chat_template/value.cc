#include "model/chat_template/value.h"

#include <algorithm>

#include "model/chat_template/template_error.h"

namespace tandem::chat_template {
namespace {

// Distinct for keys that Python holds distinct: 1, 1.0 and True are one key, "1" is another.
std::string key_spelling(const Value& key) {
  switch (key.kind()) {
    case Value::Kind::kString: return "s" + key.as_bytes();
    case Value::Kind::kInt:
    case Value::Kind::kBool: return "i" + std::to_string(key.as_int());
    case Value::Kind::kFloat: return "f" + std::to_string(key.as_real());
    case Value::Kind::kNone: return "n";
    default: return "?" + key.type_name();
  }
}

void check_depth(int depth) {
  if (depth <= Value::kMaxDepth) return;
  throw TemplateError{TemplateError::Kind::kLimit, "a value is nested too deeply", 0};
}

}  // namespace

Value Value::undefined(std::string why) {
  return Value(Undefined{std::make_shared<const std::string>(std::move(why))});
}
Value Value::string(Text text) { return Value(std::make_shared<const Text>(std::move(text))); }
Value Value::list(Values items) { return sequence(false, std::move(items)); }
Value Value::tuple(Values items) { return sequence(true, std::move(items)); }
Value Value::sequence(bool is_tuple, Values items) {
  int depth = 1;
  for (const Value& item : items) depth = std::max(depth, item.depth() + 1);
  check_depth(depth);
  return Value(std::make_shared<const Sequence>(
      Sequence{.is_tuple = is_tuple, .depth = depth, .items = std::move(items)}));
}
Value Value::dict(Dict dict) {
  check_depth(dict.depth());
  return Value(std::make_shared<const Dict>(std::move(dict)));
}
Value Value::object(std::shared_ptr<Object> object) { return Value(std::move(object)); }

Value::Kind Value::kind() const {
  switch (data_.index()) {
    case 0: return Kind::kUndefined;
    case 1: return Kind::kNone;
    case 2: return Kind::kBool;
    case 3: return Kind::kInt;
    case 4: return Kind::kFloat;
    case 5: return Kind::kString;
    case 6:
      return std::get<std::shared_ptr<const Sequence>>(data_)->is_tuple ? Kind::kTuple
                                                                        : Kind::kList;
    case 7: return Kind::kDict;
    default: return Kind::kObject;
  }
}

bool Value::is_number() const {
  return is(Kind::kInt) || is(Kind::kFloat) || is(Kind::kBool);
}

const std::string& Value::why_undefined() const { return *std::get<Undefined>(data_).why; }

int64_t Value::as_int() const {
  return is(Kind::kBool) ? int64_t{as_bool()} : std::get<int64_t>(data_);
}

double Value::as_real() const {
  return is(Kind::kFloat) ? std::get<double>(data_) : static_cast<double>(as_int());
}

const Text& Value::as_text() const { return *std::get<std::shared_ptr<const Text>>(data_); }

const Values& Value::as_items() const {
  return std::get<std::shared_ptr<const Sequence>>(data_)->items;
}

const Dict& Value::as_dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }

Object& Value::as_object() const { return *std::get<std::shared_ptr<Object>>(data_); }

int Value::depth() const {
  if (is_sequence()) return std::get<std::shared_ptr<const Sequence>>(data_)->depth;
  return is(Kind::kDict) ? as_dict().depth() : 0;
}

bool Value::truthy() const {
  switch (kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kBool: return as_bool();
    case Kind::kInt: return as_int() != 0;
    case Kind::kFloat: return as_real() != 0;
    case Kind::kString: return !as_text().empty();
    case Kind::kList:
    case Kind::kTuple: return !as_items().empty();
    case Kind::kDict: return as_dict().size() > 0;
    case Kind::kObject: return true;
  }
  return false;
}

std::string Value::type_name() const {
  switch (kind()) {
    case Kind::kUndefined: return "Undefined";
    case Kind::kNone: return "NoneType";
    case Kind::kBool: return "bool";
    case Kind::kInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kString: return "str";
    case Kind::kList: return "list";
    case Kind::kTuple: return "tuple";
    case Kind::kDict: return "dict";
    case Kind::kObject: return as_object().type_name();
  }
  return {};
}

void Dict::set(Value key, Value value) {
  depth_ = std::max({depth_, value.depth() + 1, key.depth() + 1});
  const auto [it, inserted] = index_.emplace(key_spelling(key), entries_.size());
  if (inserted) {
    entries_.emplace_back(std::move(key), std::move(value));
  } else {
    entries_[it->second].second = std::move(value);
  }
}

void Dict::set(std::string_view key, Value value) {
  set(Value::string(markup(key)), std::move(value));
}

const Value* Dict::find(const Value& key) const {
  const auto it = index_.find(key_spelling(key));
  return it == index_.end() ? nullptr : &entries_[it->second].second;
}

const Value* Dict::find(std::string_view key) const {
  const auto it = index_.find(std::string("s").append(key));
  return it == index_.end() ? nullptr : &entries_[it->second].second;
}

const Value* Arguments::find(size_t position, std::string_view name) const {
  if (position < positional.size()) return &positional[position];
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

bool equal(const Value& a, const Value& b) {
  using enum Value::Kind;
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return a.as_int() == b.as_int();
    return a.as_real() == b.as_real();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case kUndefined:
    case kNone: return true;
    case kString: return a.as_bytes() == b.as_bytes();
    case kList:
    case kTuple: {
      const Values& left = a.as_items();
      const Values& right = b.as_items();
      if (left.size() != right.size()) return false;
      for (size_t i = 0; i < left.size(); ++i) {
        if (!equal(left[i], right[i])) return false;
      }
      return true;
    }
    case kDict: {
      if (a.as_dict().size() != b.as_dict().size()) return false;
      for (const auto& [key, value] : a.as_dict().entries()) {
        const Value* other = b.as_dict().find(key);
        if (other == nullptr || !equal(value, *other)) return false;
      }
      return true;
    }
    case kObject: return &a.as_object() == &b.as_object();
    default: return false;
  }
}

}  // namespace tandem::chat_template
