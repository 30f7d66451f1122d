#include "model/chat_template/value_tests.h"

#include "model/chat_template/filters.h"
#include "model/chat_template/interpreter.h"
#include "model/chat_template/letter_case.h"
#include "model/chat_template/operators.h"

namespace tandem::chat_template {
namespace {

using Kind = Value::Kind;

const Value& argument(const Arguments& arguments) {
  const Value* value = arguments.find(0, "other");
  if (value == nullptr) fail("TypeError: the test needs an argument");
  return *value;
}

template <Kind kind>
bool has_kind(Interpreter&, const Value& value, const Arguments&) {
  return value.is(kind);
}

template <bool wanted>
bool is_bool(Interpreter&, const Value& value, const Arguments&) {
  return value.is(Kind::kBool) && value.as_bool() == wanted;
}

bool is_defined(Interpreter&, const Value& value, const Arguments&) {
  return !value.is(Kind::kUndefined);
}
bool is_number(Interpreter&, const Value& value, const Arguments&) { return value.is_number(); }
bool is_sequence(Interpreter&, const Value& value, const Arguments&) {
  return value.is_sequence() || value.is(Kind::kString) || value.is(Kind::kDict) ||
         value.is(Kind::kUndefined);
}
bool is_callable(Interpreter&, const Value& value, const Arguments&) {
  return value.is(Kind::kObject) && value.as_object().callable();
}

bool is_same(Interpreter&, const Value& value, const Arguments& arguments) {
  const Value& other = argument(arguments);
  return value.kind() == other.kind() && equal(value, other);
}

template <const char* op>
bool compares(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  return compare(interpreter, op, value, argument(arguments));
}

int64_t remainder(Interpreter& interpreter, const Value& value, const Value& divisor) {
  const Value result = binary(interpreter, "%", value, divisor);
  return result.is_integer() ? result.as_int() : (result.truthy() ? 1 : 0);
}
bool is_odd(Interpreter& interpreter, const Value& value, const Arguments&) {
  return remainder(interpreter, value, Value::integer(2)) == 1;
}
bool is_even(Interpreter& interpreter, const Value& value, const Arguments&) {
  return remainder(interpreter, value, Value::integer(2)) == 0;
}
bool is_divisible(Interpreter& interpreter, const Value& value, const Arguments& arguments) {
  return remainder(interpreter, value, argument(arguments)) == 0;
}

bool is_upper_text(Interpreter& interpreter, const Value& value, const Arguments&) {
  return is_upper(interpreter.to_text(value));
}
bool is_lower_text(Interpreter& interpreter, const Value& value, const Arguments&) {
  return is_lower(interpreter.to_text(value));
}

bool is_filter(Interpreter&, const Value& value, const Arguments&) {
  return value.is(Kind::kString) && find_filter(value.as_bytes()) != nullptr;
}
bool is_test(Interpreter&, const Value& value, const Arguments&) {
  return value.is(Kind::kString) && find_test(value.as_bytes()) != nullptr;
}

constexpr char kEq[] = "==", kNe[] = "!=", kLt[] = "<", kLe[] = "<=", kGt[] = ">", kGe[] = ">=",
               kIn[] = "in";

struct Entry {
  const char* name;
  Test test;
};
constexpr Entry kTests[] = {
    {"defined", is_defined},
    {"undefined", has_kind<Kind::kUndefined>},
    {"none", has_kind<Kind::kNone>},
    {"boolean", has_kind<Kind::kBool>},
    {"integer", has_kind<Kind::kInt>},
    {"float", has_kind<Kind::kFloat>},
    {"string", has_kind<Kind::kString>},
    {"mapping", has_kind<Kind::kDict>},
    {"true", is_bool<true>},
    {"false", is_bool<false>},
    {"number", is_number},
    {"sequence", is_sequence},
    {"iterable", is_sequence},
    {"callable", is_callable},
    {"sameas", is_same},
    {"odd", is_odd},
    {"even", is_even},
    {"divisibleby", is_divisible},
    {"upper", is_upper_text},
    {"lower", is_lower_text},
    {"filter", is_filter},
    {"test", is_test},
    {"eq", compares<kEq>},
    {"equalto", compares<kEq>},
    {"==", compares<kEq>},
    {"ne", compares<kNe>},
    {"!=", compares<kNe>},
    {"lt", compares<kLt>},
    {"lessthan", compares<kLt>},
    {"<", compares<kLt>},
    {"le", compares<kLe>},
    {"<=", compares<kLe>},
    {"gt", compares<kGt>},
    {"greaterthan", compares<kGt>},
    {">", compares<kGt>},
    {"ge", compares<kGe>},
    {">=", compares<kGe>},
    {"in", compares<kIn>},
};

}  // namespace

Test find_test(const std::string& name) {
  for (const Entry& entry : kTests) {
    if (name == entry.name) return entry.test;
  }
  return nullptr;
}

}  // namespace tandem::chat_template
