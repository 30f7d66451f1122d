#include "model/chat_template/operators.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "model/chat_template/format.h"
#include "model/chat_template/interpreter.h"

namespace tandem::chat_template {
namespace {

using Kind = Value::Kind;

[[noreturn]] void unsupported_operands(const std::string& op, const Value& left,
                                       const Value& right) {
  for (const Value* side : {&left, &right}) {
    if (side->is(Kind::kUndefined)) fail(side->why_undefined());
  }
  fail("TypeError: unsupported operand type(s) for " + op + ": '" + left.type_name() + "' and '" +
       right.type_name() + "'");
}

[[noreturn]] void overflow() { fail("OverflowError: integers have 64 bits here"); }

Value repeat(Interpreter& interpreter, const Value& value, int64_t count) {
  const uint64_t times = count > 0 ? static_cast<uint64_t>(count) : 0;
  if (value.is(Kind::kString)) {
    const Text& text = value.as_text();
    Text result;
    for (uint64_t i = 0; i < times && !text.empty(); ++i) {
      interpreter.charge_bytes(text.size_bytes());
      result.append(text);
    }
    return Value::string(std::move(result));
  }
  Values items;
  const Values& source = value.as_items();
  for (uint64_t i = 0; i < times && !source.empty(); ++i) {
    interpreter.charge_steps(source.size());
    items.insert(items.end(), source.begin(), source.end());
  }
  return value.is(Kind::kTuple) ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

Value add(Interpreter& interpreter, const Value& left, const Value& right) {
  if (left.is(Kind::kString)) {
    if (right.is(Kind::kUndefined)) fail(right.why_undefined());
    if (!right.is(Kind::kString)) {
      fail("TypeError: can only concatenate str (not \"" + right.type_name() + "\") to str");
    }
    const bool html = left.as_text().is_html() || right.as_text().is_html();
    Text text = html ? html_escaped(left.as_text()) : left.as_text();
    text.append(html ? html_escaped(right.as_text()) : right.as_text());
    interpreter.charge_bytes(text.size_bytes());
    return Value::string(std::move(text));
  }
  if (left.is_sequence()) {
    if (left.kind() != right.kind()) {
      if (right.is(Kind::kUndefined)) fail(right.why_undefined());
      fail("TypeError: can only concatenate " + left.type_name() + " (not \"" +
           right.type_name() + "\") to " + left.type_name());
    }
    Values items = left.as_items();
    items.insert(items.end(), right.as_items().begin(), right.as_items().end());
    interpreter.charge_steps(items.size());
    return left.is(Kind::kList) ? Value::list(std::move(items)) : Value::tuple(std::move(items));
  }
  unsupported_operands("+", left, right);
}

int64_t floor_divide(int64_t left, int64_t right) {
  if (right == -1 && left == INT64_MIN) overflow();
  const int64_t quotient = left / right;
  return quotient - (left % right != 0 && (left < 0) != (right < 0) ? 1 : 0);
}

Value integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return Value::real(std::pow(static_cast<double>(base),
                                                static_cast<double>(exponent)));
  int64_t result = 1;
  for (int64_t i = 0; i < exponent && result != 0 && base != 1; ++i) {
    if (base == -1) return Value::integer(exponent % 2 == 0 ? 1 : -1);
    if (__builtin_mul_overflow(result, base, &result)) overflow();
  }
  return Value::integer(result);
}

Value integer_binary(const std::string& op, int64_t left, int64_t right) {
  int64_t result = 0;
  if (op == "+") {
    if (__builtin_add_overflow(left, right, &result)) overflow();
  } else if (op == "-") {
    if (__builtin_sub_overflow(left, right, &result)) overflow();
  } else if (op == "*") {
    if (__builtin_mul_overflow(left, right, &result)) overflow();
  } else if (op == "**") {
    return integer_power(left, right);
  } else {
    if (right == 0) {
      fail(op == "/" ? "ZeroDivisionError: division by zero"
                     : "ZeroDivisionError: integer division or modulo by zero");
    }
    if (op == "/") return Value::real(static_cast<double>(left) / static_cast<double>(right));
    const int64_t quotient = floor_divide(left, right);
    result = op == "//" ? quotient : left - quotient * right;
  }
  return Value::integer(result);
}

Value real_binary(const std::string& op, double left, double right) {
  if (op == "+") return Value::real(left + right);
  if (op == "-") return Value::real(left - right);
  if (op == "*") return Value::real(left * right);
  if (op == "**") return Value::real(std::pow(left, right));
  if (right == 0) fail("ZeroDivisionError: float division by zero");
  if (op == "/") return Value::real(left / right);
  const double quotient = std::floor(left / right);
  return Value::real(op == "//" ? quotient : left - quotient * right);
}

// The conversion of one % directive.
Text converted(Interpreter& interpreter, const std::string& flags, char letter,
               const Value& value) {
  switch (letter) {
    case 's': return interpreter.to_text(value);
    case 'r': return repr_text(value, 1 << 20);
    case 'd':
    case 'i':
      if (!value.is_number()) {
        fail("TypeError: %d format: a real number is required, not " + value.type_name());
      }
      if (value.is_integer()) return markup(std::to_string(value.as_int()));
      if (!(std::fabs(value.as_real()) < 9e18)) overflow();
      return markup(std::to_string(static_cast<int64_t>(value.as_real())));
    case 'f': {
      if (!value.is_number()) fail("TypeError: must be real number, not " + value.type_name());
      const size_t dot = flags.find('.');
      const int precision =
          dot == std::string::npos ? 6 : std::min(std::atoi(flags.substr(dot + 1, 3).c_str()), 30);
      char buffer[400];
      const int size = std::snprintf(buffer, sizeof buffer, "%.*f", precision, value.as_real());
      return markup({buffer, std::min<size_t>(static_cast<size_t>(size), sizeof buffer - 1)});
    }
    default: fail(std::string("ValueError: unsupported format character '") + letter + "'");
  }
}

}  // namespace

Value printf_format(Interpreter& interpreter, const Text& format, const Values& values) {
  const std::string& bytes = format.bytes();
  Text out;
  size_t used = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    if (bytes[at] != '%') {
      out.append(format, at, 1);
      continue;
    }
    const size_t letter = bytes.find_first_not_of("0123456789.", at + 1);
    if (letter == std::string::npos) fail("ValueError: incomplete format");
    if (bytes[letter] == '%') {
      out.append(format, letter, 1);
    } else {
      if (used == values.size()) fail("TypeError: not enough arguments for format string");
      out.append(converted(interpreter, bytes.substr(at + 1, letter - at - 1), bytes[letter],
                           values[used++]));
    }
    at = letter;
  }
  if (used != values.size()) {
    fail("TypeError: not all arguments converted during string formatting");
  }
  interpreter.charge_bytes(out.size_bytes());
  return Value::string(std::move(out));
}

Value binary(Interpreter& interpreter, const std::string& op, const Value& left,
             const Value& right) {
  if (left.is_integer() && right.is_integer()) {
    return integer_binary(op, left.as_int(), right.as_int());
  }
  if (left.is_number() && right.is_number()) {
    return real_binary(op, left.as_real(), right.as_real());
  }
  if (op == "+") return add(interpreter, left, right);
  const auto repeats = [](const Value& value) {
    return value.is(Kind::kString) || value.is_sequence();
  };
  if (op == "*" && repeats(left) && right.is_integer()) {
    return repeat(interpreter, left, right.as_int());
  }
  if (op == "*" && repeats(right) && left.is_integer()) {
    return repeat(interpreter, right, left.as_int());
  }
  if (op == "%" && left.is(Kind::kString)) {
    return printf_format(interpreter, left.as_text(),
                         right.is(Kind::kTuple) ? right.as_items() : Values{right});
  }
  unsupported_operands(op, left, right);
}

Value unary(const std::string& op, const Value& value) {
  if (value.is(Kind::kUndefined)) fail(value.why_undefined());
  if (!value.is_number()) {
    fail("TypeError: bad operand type for unary " + op + ": '" + value.type_name() + "'");
  }
  if (op == "+") return value;
  if (value.is(Kind::kFloat)) return Value::real(-value.as_real());
  if (value.as_int() == INT64_MIN) overflow();
  return Value::integer(-value.as_int());
}

bool less(const Value& left, const Value& right) {
  if (left.is_integer() && right.is_integer()) return left.as_int() < right.as_int();
  if (left.is_number() && right.is_number()) return left.as_real() < right.as_real();
  if (left.is(Kind::kString) && right.is(Kind::kString)) return left.as_bytes() < right.as_bytes();
  if (left.is_sequence() && left.kind() == right.kind()) {
    const Values& a = left.as_items();
    const Values& b = right.as_items();
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
      if (!equal(a[i], b[i])) return less(a[i], b[i]);
    }
    return a.size() < b.size();
  }
  for (const Value* side : {&left, &right}) {
    if (side->is(Kind::kUndefined)) fail(side->why_undefined());
  }
  fail("TypeError: '<' not supported between instances of '" + left.type_name() + "' and '" +
       right.type_name() + "'");
}

bool contains(Interpreter& interpreter, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.is(Kind::kString)) {
        fail("TypeError: 'in <string>' requires string as left operand, not " + item.type_name());
      }
      interpreter.charge_steps(container.as_bytes().size() / 64);
      return container.as_bytes().find(item.as_bytes()) != std::string::npos;
    case Kind::kDict: return container.as_dict().find(item) != nullptr;
    case Kind::kList:
    case Kind::kTuple:
      interpreter.charge_steps(container.as_items().size());
      return std::any_of(container.as_items().begin(), container.as_items().end(),
                         [&](const Value& candidate) { return equal(candidate, item); });
    case Kind::kUndefined: return false;
    default: fail("TypeError: argument of type '" + container.type_name() + "' is not iterable");
  }
}

bool compare(Interpreter& interpreter, const std::string& op, const Value& left,
             const Value& right) {
  if (op == "==") return equal(left, right);
  if (op == "!=") return !equal(left, right);
  if (op == "in") return contains(interpreter, right, left);
  if (op == "not in") return !contains(interpreter, right, left);
  if (op == "<") return less(left, right);
  if (op == ">") return less(right, left);
  // NaN is unordered, so <= is not the negation of >.
  if (op == "<=") return less(left, right) || equal(left, right);
  return less(right, left) || equal(left, right);
}

}  // namespace tandem::chat_template
