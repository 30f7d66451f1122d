// Filters over lists and dicts, and those that take any value.
#include <algorithm>

#include "model/chat_template/filters.h"
#include "model/chat_template/interpreter.h"
#include "model/chat_template/letter_case.h"
#include "model/chat_template/objects.h"
#include "model/chat_template/operators.h"
#include "model/chat_template/value_tests.h"

namespace tandem::chat_template {
namespace {

using Kind = Value::Kind;

bool flag(const Arguments& arguments, size_t position, const char* name) {
  const Value* value = arguments.find(position, name);
  return value != nullptr && value->truthy();
}

Value default_filter(Interpreter&, const Value& input, const Arguments& arguments) {
  const bool use = input.is(Kind::kUndefined) ||
                   (flag(arguments, 1, "boolean") && !input.truthy());
  if (!use) return input;
  const Value* fallback = arguments.find(0, "default_value");
  return fallback == nullptr ? Value::string({}) : *fallback;
}

Value length(Interpreter&, const Value& input, const Arguments&) {
  switch (input.kind()) {
    case Kind::kUndefined: return Value::integer(0);
    case Kind::kString: {
      const size_t count = character_offsets(input.as_bytes()).size() - 1;
      return Value::integer(static_cast<int64_t>(count));
    }
    case Kind::kList:
    case Kind::kTuple: return Value::integer(static_cast<int64_t>(input.as_items().size()));
    case Kind::kDict: return Value::integer(static_cast<int64_t>(input.as_dict().size()));
    default: fail("TypeError: object of type '" + input.type_name() + "' has no len()");
  }
}

Value first(Interpreter& interpreter, const Value& input, const Arguments&) {
  Values items = interpreter.iterate(input);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value last(Interpreter& interpreter, const Value& input, const Arguments&) {
  Values items = interpreter.iterate(input);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value list(Interpreter& interpreter, const Value& input, const Arguments&) {
  return Value::list(interpreter.iterate(input));
}

Value reverse(Interpreter& interpreter, const Value& input, const Arguments&) {
  Values items = interpreter.iterate(input);
  std::reverse(items.begin(), items.end());
  if (!input.is(Kind::kString)) return Value::list(std::move(items));
  Text text;
  for (const Value& item : items) text.append(item.as_text());
  return Value::string(std::move(text));
}

Value items(Interpreter& interpreter, const Value& input, const Arguments&) {
  if (input.is(Kind::kUndefined)) return Value::list({});
  if (!input.is(Kind::kDict)) fail("TypeError: Can only get item pairs from a mapping.");
  Values pairs;
  for (const auto& [key, value] : input.as_dict().entries()) {
    pairs.push_back(Value::tuple({key, value}));
  }
  interpreter.charge_steps(pairs.size());
  return Value::list(std::move(pairs));
}

// value.a.b.0 for the path "a.b.0".
Value follow(Interpreter& interpreter, Value value, const Value& path) {
  if (path.is_integer()) return interpreter.item(value, path);
  for (const Text& part : split(interpreter.to_text(path), ".", -1)) {
    const std::string& name = part.bytes();
    const bool numeric = !name.empty() && name.size() < 10 &&
                         name.find_first_not_of("0123456789") == std::string::npos;
    value = interpreter.item(value, numeric ? Value::integer(std::stol(name))
                                            : Value::string(part));
  }
  return value;
}

// What sort, unique, min and max compare: case does not count unless asked for.
Value comparable(Interpreter& interpreter, const Value& value, const Value* attribute,
                 bool case_sensitive) {
  Value key = attribute == nullptr || attribute->is(Kind::kNone)
                  ? value
                  : follow(interpreter, value, *attribute);
  if (case_sensitive || !key.is(Kind::kString)) return key;
  return Value::string(lower(key.as_text()));
}

Value join(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value* separator = arguments.find(0, "d");
  const Value* attribute = arguments.find(1, "attribute");
  const Text between = separator == nullptr ? Text() : interpreter.to_text(*separator);
  Text text;
  bool is_first = true;
  for (const Value& item : interpreter.iterate(input)) {
    if (!is_first) text.append(between);
    is_first = false;
    interpreter.charge_bytes(between.size_bytes());
    text.append(interpreter.to_text(attribute == nullptr ? item
                                                         : follow(interpreter, item, *attribute)));
  }
  return Value::string(std::move(text));
}

// Items in the order of their keys; items with equal keys keep their order.
Values sorted(Interpreter& interpreter, Values values, const Value* attribute, bool case_sensitive,
              bool reversed) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& value : values) {
    interpreter.charge_steps(16);  // about the comparisons per item
    keyed.emplace_back(comparable(interpreter, value, attribute, case_sensitive), value);
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reversed ? less(b.first, a.first) : less(a.first, b.first);
  });
  Values result;
  for (auto& [key, value] : keyed) result.push_back(std::move(value));
  return result;
}

Value sort(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return Value::list(sorted(interpreter, interpreter.iterate(input),
                            arguments.find(2, "attribute"), flag(arguments, 1, "case_sensitive"),
                            flag(arguments, 0, "reverse")));
}

Value dictsort(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value* by = arguments.find(1, "by");
  const bool by_value = by != nullptr && by->is(Kind::kString) && by->as_bytes() == "value";
  const Value position = Value::integer(by_value ? 1 : 0);
  const Value pairs = items(interpreter, input, arguments);
  return Value::list(sorted(interpreter, pairs.as_items(), &position,
                            flag(arguments, 0, "case_sensitive"), flag(arguments, 2, "reverse")));
}

Value unique(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value* attribute = arguments.find(1, "attribute");
  const bool case_sensitive = flag(arguments, 0, "case_sensitive");
  Values kept, keys;
  for (const Value& item : interpreter.iterate(input)) {
    Value key = comparable(interpreter, item, attribute, case_sensitive);
    interpreter.charge_steps(keys.size() / 8);
    const auto is_same = [&](const Value& other) { return equal(other, key); };
    if (std::any_of(keys.begin(), keys.end(), is_same)) continue;
    keys.push_back(std::move(key));
    kept.push_back(item);
  }
  return Value::list(std::move(kept));
}

Value extreme(Interpreter& interpreter, const Value& input, const Arguments& arguments,
              bool largest) {
  const Values values = sorted(interpreter, interpreter.iterate(input),
                               arguments.find(1, "attribute"),
                               flag(arguments, 0, "case_sensitive"), largest);
  return values.empty() ? Value::undefined("No aggregated item, sequence was empty.")
                        : values.front();
}
Value max_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return extreme(interpreter, input, arguments, true);
}
Value min_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return extreme(interpreter, input, arguments, false);
}

Value sum(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value* attribute = arguments.find(0, "attribute");
  const Value* start = arguments.find(1, "start");
  Value total = start == nullptr ? Value::integer(0) : *start;
  for (const Value& item : interpreter.iterate(input)) {
    const bool direct = attribute == nullptr || attribute->is(Kind::kNone);
    total = binary(interpreter, "+", total,
                   direct ? item : follow(interpreter, item, *attribute));
  }
  return total;
}

// Arguments from position `from` on, for the filter or test that this one applies.
Arguments rest(const Arguments& arguments, size_t from) {
  Arguments result;
  for (size_t i = from; i < arguments.positional.size(); ++i) {
    result.positional.push_back(arguments.positional[i]);
  }
  result.named = arguments.named;
  return result;
}

Value map(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  if (!input.truthy()) return Value::list({});  // none too, as in the reference
  Values mapped;
  const Values values = interpreter.iterate(input);
  if (const Value* attribute = arguments.find(SIZE_MAX, "attribute")) {
    const Value* fallback = arguments.find(SIZE_MAX, "default");
    for (const Value& item : values) {
      Value value = follow(interpreter, item, *attribute);
      if (fallback != nullptr && value.is(Kind::kUndefined)) value = *fallback;
      mapped.push_back(std::move(value));
    }
    return Value::list(std::move(mapped));
  }
  if (arguments.positional.empty()) fail("FilterArgumentError: map requires a filter argument");
  const std::string name = interpreter.to_text(arguments.positional[0]).bytes();
  const Filter filter = find_filter(name);
  if (filter == nullptr) fail("TemplateRuntimeError: No filter named '" + name + "'.");
  for (const Value& item : values) {
    mapped.push_back(filter(interpreter, item, rest(arguments, 1)));
  }
  return Value::list(std::move(mapped));
}

// select, reject, selectattr and rejectattr: keep the items whose value (or attribute) passes the
// named test; without a test, those that are true.
Value choose(Interpreter& interpreter, const Value& input, const Arguments& arguments,
             bool by_attribute, bool keep) {
  const size_t at = by_attribute ? 1 : 0;
  if (by_attribute && arguments.positional.empty()) {
    fail("FilterArgumentError: Missing parameter for attribute name");
  }
  Test test = nullptr;
  if (arguments.positional.size() > at) {
    const std::string name = interpreter.to_text(arguments.positional[at]).bytes();
    test = find_test(name);
    if (test == nullptr) fail("TemplateRuntimeError: No test named '" + name + "'.");
  }
  if (!input.truthy()) return Value::list({});  // none too, as in the reference
  const Arguments test_arguments = rest(arguments, at + 1);
  Values kept;
  for (const Value& item : interpreter.iterate(input)) {
    const Value subject =
        by_attribute ? follow(interpreter, item, arguments.positional[0]) : item;
    const bool passes =
        test == nullptr ? subject.truthy() : test(interpreter, subject, test_arguments);
    if (passes == keep) kept.push_back(item);
  }
  return Value::list(std::move(kept));
}

template <bool by_attribute, bool keep>
Value choose_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return choose(interpreter, input, arguments, by_attribute, keep);
}

int64_t count_argument(const Arguments& arguments, const char* name) {
  const Value* count = arguments.find(0, name);
  if (count == nullptr || !count->is_integer() || count->as_int() < 1) {
    fail(std::string("TypeError: ") + name + " must be a positive int");
  }
  return count->as_int();
}

Value batch(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const auto size = static_cast<size_t>(count_argument(arguments, "linecount"));
  const Value* fill = arguments.find(1, "fill_with");
  Values rows, row;
  for (const Value& item : interpreter.iterate(input)) {
    row.push_back(item);
    if (row.size() == size) rows.push_back(Value::list(std::exchange(row, {})));
  }
  if (!row.empty()) {
    while (fill != nullptr && row.size() < size) {
      interpreter.charge_steps(1);
      row.push_back(*fill);
    }
    rows.push_back(Value::list(std::move(row)));
  }
  return Value::list(std::move(rows));
}

Value slice(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const auto count = static_cast<size_t>(count_argument(arguments, "slices"));
  const Value* fill = arguments.find(1, "fill_with");
  const Values values = interpreter.iterate(input);
  interpreter.charge_steps(count);
  const size_t per_slice = values.size() / count, longer = values.size() % count;
  Values rows;
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t size = per_slice + (i < longer ? 1 : 0);
    Values row(values.begin() + static_cast<std::ptrdiff_t>(at),
               values.begin() + static_cast<std::ptrdiff_t>(at + size));
    if (fill != nullptr && i >= longer) row.push_back(*fill);
    rows.push_back(Value::list(std::move(row)));
    at += size;
  }
  return Value::list(std::move(rows));
}

Value groupby(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value* attribute = arguments.find(0, "attribute");
  if (attribute == nullptr) fail("TypeError: groupby needs an attribute");
  Values groups, members;
  Value key;
  const auto close = [&] {
    if (!members.empty()) {
      groups.push_back(Value::tuple({key, Value::list(std::exchange(members, {}))}));
    }
  };
  for (const Value& item :
       sorted(interpreter, interpreter.iterate(input), attribute, false, false)) {
    const Value next = follow(interpreter, item, *attribute);
    if (members.empty() || !equal(next, key)) {
      close();
      key = next;
    }
    members.push_back(item);
  }
  close();
  return Value::list(std::move(groups));
}

Value attr(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value* name = arguments.find(0, "name");
  if (name == nullptr) fail("TypeError: attr needs a name");
  if (input.is(Kind::kUndefined)) fail(input.why_undefined());
  if (input.is(Kind::kObject)) {
    return interpreter.attribute(input, interpreter.to_text(*name).bytes());
  }
  return Value::undefined("no such attribute");  // keys of a dict are no attributes
}

struct Entry {
  const char* name;
  Filter filter;
};
constexpr Entry kFilters[] = {
    {"default", default_filter},
    {"d", default_filter},
    {"length", length},
    {"count", length},
    {"first", first},
    {"last", last},
    {"list", list},
    {"reverse", reverse},
    {"items", items},
    {"join", join},
    {"sort", sort},
    {"dictsort", dictsort},
    {"unique", unique},
    {"max", max_filter},
    {"min", min_filter},
    {"sum", sum},
    {"map", map},
    {"select", choose_filter<false, true>},
    {"reject", choose_filter<false, false>},
    {"selectattr", choose_filter<true, true>},
    {"rejectattr", choose_filter<true, false>},
    {"batch", batch},
    {"slice", slice},
    {"groupby", groupby},
    {"attr", attr},
};

}  // namespace

Filter find_list_filter(const std::string& name) {
  for (const Entry& entry : kFilters) {
    if (name == entry.name) return entry.filter;
  }
  return nullptr;
}

}  // namespace tandem::chat_template
