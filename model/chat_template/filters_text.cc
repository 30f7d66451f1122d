// Filters that take or make text and numbers.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "model/chat_template/filters.h"
#include "model/chat_template/format.h"
#include "model/chat_template/interpreter.h"
#include "model/chat_template/letter_case.h"
#include "model/chat_template/operators.h"

namespace tandem::chat_template {
namespace {

using Kind = Value::Kind;

Value text_value(Interpreter& interpreter, Text text) {
  interpreter.charge_bytes(text.size_bytes());
  return Value::string(std::move(text));
}

bool flag(const Arguments& arguments, size_t position, const char* name) {
  const Value* value = arguments.find(position, name);
  return value != nullptr && value->truthy();
}

int64_t integer_argument(const Arguments& arguments, size_t position, const char* name,
                         int64_t fallback) {
  const Value* value = arguments.find(position, name);
  if (value == nullptr || value->is(Kind::kNone)) return fallback;
  if (!value->is_integer()) fail("TypeError: expected int, got " + value->type_name());
  return value->as_int();
}

template <Text (*map)(const Text&)>
Value mapped(Interpreter& interpreter, const Value& input, const Arguments&) {
  return text_value(interpreter, map(interpreter.to_text(input)));
}

Value trim(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value* characters = arguments.find(0, "chars");
  const std::string set = characters == nullptr || characters->is(Kind::kNone)
                              ? std::string()
                              : interpreter.to_text(*characters).bytes();
  return text_value(interpreter, stripped(interpreter.to_text(input), set, Ends::kBoth));
}

Value replace(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value* from = arguments.find(0, "old");
  const Value* to = arguments.find(1, "new");
  if (from == nullptr || to == nullptr) fail("TypeError: replace needs two arguments");
  return text_value(interpreter,
                    replaced(interpreter.to_text(input), interpreter.to_text(*from).bytes(),
                             interpreter.to_text(*to),
                             integer_argument(arguments, 2, "count", -1)));
}

Value string(Interpreter& interpreter, const Value& input, const Arguments&) {
  return Value::string(interpreter.to_text(input));
}

Value safe(Interpreter& interpreter, const Value& input, const Arguments&) {
  Text text = interpreter.to_text(input);
  text.mark_html();
  return Value::string(std::move(text));
}

Value escape(Interpreter& interpreter, const Value& input, const Arguments&) {
  return text_value(interpreter, html_escaped(interpreter.to_text(input)));
}

Value indent(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value* width = arguments.find(0, "width");
  Text pad = markup("    ");
  if (width != nullptr && width->is(Kind::kString)) {
    pad = width->as_text();
  } else {
    const int64_t size = std::clamp<int64_t>(integer_argument(arguments, 0, "width", 4), 0, 1000);
    pad = markup(std::string(static_cast<size_t>(size), ' '));
  }
  const bool first = flag(arguments, 1, "first"), blank = flag(arguments, 2, "blank");
  const Text text = interpreter.to_text(input);
  Text out;
  bool is_first = true;
  for (const Text& line : split(text, "\n", -1)) {
    if (!is_first) out.append("\n", Origin::kMarkup);
    interpreter.charge_bytes(pad.size_bytes() + line.size_bytes());
    if (is_first ? first : blank || !line.empty()) out.append(pad);
    out.append(line);
    is_first = false;
  }
  return Value::string(std::move(out));
}

Value center(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Text text = interpreter.to_text(input);
  const auto size = static_cast<int64_t>(character_offsets(text.bytes()).size()) - 1;
  const int64_t width = integer_argument(arguments, 0, "width", 80);
  const int64_t space = std::max<int64_t>(width - size, 0);
  interpreter.charge_bytes(static_cast<uint64_t>(space));
  const int64_t left = space / 2 + (space & width & 1);  // where Python puts the odd one
  Text out = markup(std::string(static_cast<size_t>(left), ' '));
  out.append(text);
  out.append(std::string(static_cast<size_t>(space - left), ' '), Origin::kMarkup);
  return Value::string(std::move(out));
}

Value wordcount(Interpreter& interpreter, const Value& input, const Arguments&) {
  const Text text = interpreter.to_text(input);
  return Value::integer(static_cast<int64_t>(split_at_space(text, -1).size()));
}

Value truncate(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Text text = interpreter.to_text(input);
  const auto bounded = [&](size_t position, const char* name, int64_t fallback) {
    return std::clamp<int64_t>(integer_argument(arguments, position, name, fallback), 0, 1 << 30);
  };
  const int64_t length = bounded(0, "length", 255);
  const Value* given_end = arguments.find(2, "end");
  const Text end = given_end == nullptr ? markup("...") : interpreter.to_text(*given_end);
  const int64_t leeway = bounded(3, "leeway", 5);
  const std::vector<size_t> offsets = character_offsets(text.bytes());
  const auto size = static_cast<int64_t>(offsets.size()) - 1;
  if (size <= length + leeway) return Value::string(text);
  const auto end_size = static_cast<int64_t>(character_offsets(end.bytes()).size()) - 1;
  const int64_t keep = std::max<int64_t>(length - end_size, 0);
  Text out = text.slice(0, offsets[static_cast<size_t>(keep)]);
  if (!flag(arguments, 1, "killwords")) {
    const size_t space = out.bytes().rfind(' ');
    if (space != std::string::npos) out = out.slice(0, space);
  }
  out.append(end);
  return text_value(interpreter, std::move(out));
}

Value format(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  if (!arguments.named.empty()) fail("TypeError: format by name is not supported");
  return printf_format(interpreter, interpreter.to_text(input), arguments.positional);
}

// Python's int() and float() of a text: white space around it is fine, anything else is not.
template <typename T>
std::optional<T> parsed(const std::string& text) {
  const std::string trimmed = stripped(markup(text), {}, Ends::kBoth).bytes();
  const size_t sign = trimmed.starts_with('+') ? 1 : 0;
  T value{};
  const char* end = trimmed.data() + trimmed.size();
  const auto result = std::from_chars(trimmed.data() + sign, end, value);
  if (trimmed.empty() || result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

Value to_integer(Interpreter&, const Value& input, const Arguments& arguments) {
  const Value* given = arguments.find(0, "default");
  const Value fallback = given == nullptr ? Value::integer(0) : *given;
  std::optional<double> real;
  if (input.is_integer()) return Value::integer(input.as_int());
  if (input.is(Kind::kString)) {
    if (const auto value = parsed<int64_t>(input.as_bytes())) return Value::integer(*value);
    real = parsed<double>(input.as_bytes());
  } else if (input.is(Kind::kFloat)) {
    real = input.as_real();
  }
  if (!real || !(std::fabs(*real) < 9e18)) return fallback;
  return Value::integer(static_cast<int64_t>(*real));
}

Value to_real(Interpreter&, const Value& input, const Arguments& arguments) {
  const Value* given = arguments.find(0, "default");
  if (input.is_number()) return Value::real(input.as_real());
  if (input.is(Kind::kString)) {
    if (const auto value = parsed<double>(input.as_bytes())) return Value::real(*value);
  }
  return given == nullptr ? Value::real(0) : *given;
}

Value absolute(Interpreter&, const Value& input, const Arguments&) {
  const bool negative = input.is_number() && input.as_real() < 0;
  return unary(negative ? "-" : "+", input);
}

Value round_filter(Interpreter&, const Value& input, const Arguments& arguments) {
  if (!input.is_number()) fail("TypeError: cannot round " + input.type_name());
  const Value* given = arguments.find(1, "method");
  const std::string method =
      given != nullptr && given->is(Kind::kString) ? given->as_bytes() : "common";
  const int64_t precision = integer_argument(arguments, 0, "precision", 0);
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = input.as_real() * scale;
  if (method == "ceil") return Value::real(std::ceil(scaled) / scale);
  if (method == "floor") return Value::real(std::floor(scaled) / scale);
  return Value::real(std::nearbyint(scaled) / scale);  // halves to even, as in Python
}

Value tojson(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  constexpr uint64_t kMaxJsonBytes = uint64_t{16} << 20;
  JsonStyle style;
  style.ascii_only = flag(arguments, SIZE_MAX, "ensure_ascii");
  style.sort_keys = flag(arguments, SIZE_MAX, "sort_keys");
  const int64_t width = integer_argument(arguments, 0, "indent", -1);
  style.indent = static_cast<int>(std::clamp<int64_t>(width, -1, 100));
  const Value* separators = arguments.find(SIZE_MAX, "separators");
  if (separators != nullptr && !separators->is(Kind::kNone)) {
    const Values both = interpreter.iterate(*separators);
    if (both.size() != 2) fail("ValueError: separators must be a pair");
    style.item_separator = interpreter.to_text(both[0]).bytes();
    style.key_separator = interpreter.to_text(both[1]).bytes();
  }
  return text_value(interpreter, json_text(input, style, kMaxJsonBytes));
}

struct Entry {
  const char* name;
  Filter filter;
};
constexpr Entry kFilters[] = {
    {"upper", mapped<upper>},
    {"lower", mapped<lower>},
    {"title", mapped<title_case>},
    {"capitalize", mapped<capitalized>},
    {"trim", trim},
    {"replace", replace},
    {"string", string},
    {"safe", safe},
    {"escape", escape},
    {"e", escape},
    {"indent", indent},
    {"center", center},
    {"wordcount", wordcount},
    {"truncate", truncate},
    {"format", format},
    {"int", to_integer},
    {"float", to_real},
    {"abs", absolute},
    {"round", round_filter},
    {"tojson", tojson},
};

}  // namespace

Filter find_text_filter(const std::string& name) {
  for (const Entry& entry : kFilters) {
    if (name == entry.name) return entry.filter;
  }
  return nullptr;
}

Filter find_filter(const std::string& name) {
  const Filter filter = find_text_filter(name);
  return filter != nullptr ? filter : find_list_filter(name);
}

}  // namespace tandem::chat_template
