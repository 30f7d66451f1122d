#include "model/chat_template/objects.h"

#include <array>
#include <ctime>

#include "model/chat_template/interpreter.h"
#include "model/chat_template/template_error.h"

namespace tandem::chat_template {
namespace {

Dict named_arguments(const Arguments& arguments) {
  Dict dict;
  for (const Value& value : arguments.positional) {
    if (!value.is(Value::Kind::kDict)) {
      fail("TypeError: expected a dict, got " + value.type_name());
    }
    for (const auto& [key, item] : value.as_dict().entries()) dict.set(key, item);
  }
  for (const auto& [key, value] : arguments.named) dict.set(key, value);
  return dict;
}

Value make_namespace(Interpreter& interpreter, const Arguments& arguments) {
  return interpreter.make_namespace(named_arguments(arguments));
}

Value make_dict(Interpreter&, const Arguments& arguments) {
  return Value::dict(named_arguments(arguments));
}

Value range(Interpreter& interpreter, const Arguments& arguments) {
  const size_t count = arguments.positional.size();
  if (count < 1 || count > 3) fail("TypeError: range expects 1 to 3 arguments");
  for (const Value& value : arguments.positional) {
    if (!value.is_integer()) fail("TypeError: range expects integers, got " + value.type_name());
  }
  const auto argument = [&](size_t i) { return arguments.positional[i].as_int(); };
  const int64_t begin = count > 1 ? argument(0) : 0;
  const int64_t end = count > 1 ? argument(1) : argument(0);
  const int64_t step = count > 2 ? argument(2) : 1;
  if (step == 0) fail("ValueError: range() arg 3 must not be zero");
  Values items;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    interpreter.charge_steps(1);
    items.push_back(Value::integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Value::list(std::move(items));
}

Value raise_exception(Interpreter& interpreter, const Arguments& arguments) {
  const Value* message = arguments.find(0, "message");
  throw TemplateError{TemplateError::Kind::kRaised,
                      message == nullptr ? "" : interpreter.to_text(*message).bytes(), 0};
}

Value strftime_now(Interpreter& interpreter, const Arguments& arguments) {
  const Value* format = arguments.find(0, "format");
  if (format == nullptr || !format->is(Value::Kind::kString)) {
    fail("TypeError: strftime_now expects a format string");
  }
  constexpr size_t kMaxFormatBytes = 200;
  if (format->as_bytes().size() > kMaxFormatBytes) fail("ValueError: strftime_now format too long");
  std::array<char, 4096> buffer{};
  const size_t size =
      std::strftime(buffer.data(), buffer.size(), format->as_bytes().c_str(), &interpreter.now());
  return Value::string(markup({buffer.data(), size}));
}

// joiner(', '): empty the first time it is called, then the separator.
Value make_joiner(Interpreter&, const Arguments& arguments) {
  const Value* given = arguments.find(0, "sep");
  const Value separator = given == nullptr ? Value::string(markup(", ")) : *given;
  if (!separator.is(Value::Kind::kString)) fail("TypeError: joiner expects a string");
  auto used = std::make_shared<bool>(false);
  return make_function("joiner", [separator, used](Interpreter&, const Arguments&) {
    if (std::exchange(*used, true)) return separator;
    return Value::string({});
  });
}

Value make_cycler(Interpreter& interpreter, const Arguments& arguments) {
  if (arguments.positional.empty()) fail("TypeError: cycler expects at least one item");
  auto next = std::make_shared<size_t>(0);
  const Values items = arguments.positional;
  Dict attributes;
  attributes.set("next", make_function("next", [items, next](Interpreter&, const Arguments&) {
    return items[(*next)++ % items.size()];
  }));
  attributes.set("reset", make_function("reset", [next](Interpreter&, const Arguments&) {
    *next = 0;
    return Value();
  }));
  return interpreter.make_namespace(std::move(attributes));
}

}  // namespace

Value make_function(std::string name, Function::Body body) {
  return Value::object(std::make_shared<Function>(std::move(name), std::move(body)));
}

std::optional<Value> Namespace::attribute(const std::string& name) {
  const Value* value = attributes_.find(name);
  if (value == nullptr) return std::nullopt;
  return *value;
}

bool Namespace::set_attribute(const std::string& name, Value value) {
  attributes_.set(name, std::move(value));
  return true;
}

std::optional<Value> Function::attribute(const std::string& name) {
  if (name != "name") return std::nullopt;
  return Value::string(markup(name_));
}

std::optional<Value> Loop::attribute(const std::string& name) {
  const auto count = static_cast<int64_t>(items_.size());
  const auto index = static_cast<int64_t>(index_);
  if (name == "index") return Value::integer(index + 1);
  if (name == "index0") return Value::integer(index);
  if (name == "revindex") return Value::integer(count - index);
  if (name == "revindex0") return Value::integer(count - index - 1);
  if (name == "first") return Value::boolean(index == 0);
  if (name == "last") return Value::boolean(index + 1 == count);
  if (name == "length") return Value::integer(count);
  if (name == "depth") return Value::integer(1);  // loops are never recursive here
  if (name == "depth0") return Value::integer(0);
  if (name == "previtem") {
    if (index == 0 || index >= count) return Value::undefined("there is no previous item");
    return items_[index_ - 1];
  }
  if (name == "nextitem") {
    return index + 1 < count ? items_[index_ + 1] : Value::undefined("there is no next item");
  }
  if (name == "cycle") {
    return make_function("cycle", [at = index_](Interpreter&, const Arguments& arguments) {
      if (arguments.positional.empty()) fail("TypeError: no items for cycling given");
      return arguments.positional[at % arguments.positional.size()];
    });
  }
  return std::nullopt;
}

std::optional<Value> find_global(const std::string& name) {
  struct Global {
    const char* name;
    Value (*body)(Interpreter&, const Arguments&);
  };
  static constexpr Global kGlobals[] = {
      {"namespace", make_namespace},       {"dict", make_dict},
      {"range", range},                    {"raise_exception", raise_exception},
      {"strftime_now", strftime_now},      {"joiner", make_joiner},
      {"cycler", make_cycler},
  };
  for (const Global& global : kGlobals) {
    if (name == global.name) return make_function(name, global.body);
  }
  return std::nullopt;
}

}  // namespace tandem::chat_template
