#include "model/chat_template/methods.h"

#include <algorithm>

#include "model/chat_template/format.h"
#include "model/chat_template/interpreter.h"
#include "model/chat_template/letter_case.h"

namespace tandem::chat_template {
namespace {

using Kind = Value::Kind;

Value text_value(Interpreter& interpreter, Text text) {
  interpreter.charge_bytes(text.size_bytes());
  return Value::string(std::move(text));
}

Value text_list(Interpreter& interpreter, std::vector<Text> texts) {
  Values items;
  for (Text& text : texts) items.push_back(text_value(interpreter, std::move(text)));
  interpreter.charge_steps(items.size());
  return Value::list(std::move(items));
}

// An argument that must be a string; nullptr when absent or none.
const Text* optional_text(const Arguments& arguments, size_t position, const char* name) {
  const Value* value = arguments.find(position, name);
  if (value == nullptr || value->is(Kind::kNone)) return nullptr;
  if (value->is(Kind::kUndefined)) fail(value->why_undefined());
  if (!value->is(Kind::kString)) fail("TypeError: expected str, got " + value->type_name());
  return &value->as_text();
}

const Text& required_text(const Arguments& arguments, size_t position, const char* name) {
  const Text* text = optional_text(arguments, position, name);
  if (text == nullptr) fail(std::string("TypeError: missing argument ") + name);
  return *text;
}

int64_t optional_integer(const Arguments& arguments, size_t position, const char* name,
                         int64_t fallback) {
  const Value* value = arguments.find(position, name);
  if (value == nullptr) return fallback;
  if (!value->is_integer()) fail("TypeError: expected int, got " + value->type_name());
  return value->as_int();
}

template <Ends ends>
Value strip(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Text* characters = optional_text(arguments, 0, "chars");
  return text_value(interpreter, stripped(self.as_text(),
                                          characters == nullptr ? "" : characters->bytes(), ends));
}

template <Text (*map)(const Text&)>
Value mapped(Interpreter& interpreter, const Value& self, const Arguments&) {
  return text_value(interpreter, map(self.as_text()));
}

Value split_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Text* separator = optional_text(arguments, 0, "sep");
  const int64_t max_count = optional_integer(arguments, 1, "maxsplit", -1);
  if (separator == nullptr) {
    return text_list(interpreter, split_at_space(self.as_text(), max_count));
  }
  if (separator->empty()) fail("ValueError: empty separator");
  return text_list(interpreter, split(self.as_text(), separator->bytes(), max_count));
}

Value rsplit_method(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Text& separator = required_text(arguments, 0, "sep");
  const int64_t max_count = optional_integer(arguments, 1, "maxsplit", -1);
  if (separator.empty()) fail("ValueError: empty separator");
  std::vector<Text> parts = split(self.as_text(), separator.bytes(), -1);
  const auto count = static_cast<int64_t>(parts.size());
  if (max_count >= 0 && count - 1 > max_count) {  // join what lies left of the last cuts
    const auto kept = static_cast<size_t>(count - max_count);
    for (size_t i = 1; i < kept; ++i) {
      parts[0].append(separator);
      parts[0].append(parts[i]);
    }
    parts.erase(parts.begin() + 1, parts.begin() + static_cast<std::ptrdiff_t>(kept));
  }
  return text_list(interpreter, std::move(parts));
}

Value splitlines(Interpreter& interpreter, const Value& self, const Arguments&) {
  return text_list(interpreter, split_lines(self.as_text()));
}

// One string or a tuple of them.
Value matches_any(const Value& self, const Arguments& arguments,
                  bool (*matches)(const std::string&, const std::string&)) {
  const Value* wanted = arguments.find(0, "prefix");
  if (wanted == nullptr) fail("TypeError: missing argument prefix");
  const Values candidates = wanted->is(Kind::kTuple) ? wanted->as_items() : Values{*wanted};
  bool found = false;
  for (const Value& candidate : candidates) {
    if (!candidate.is(Kind::kString)) {
      fail("TypeError: first arg must be str or a tuple of str, not " + candidate.type_name());
    }
    found = found || matches(self.as_bytes(), candidate.as_bytes());
  }
  return Value::boolean(found);
}

Value startswith(Interpreter&, const Value& self, const Arguments& arguments) {
  return matches_any(self, arguments, [](const std::string& text, const std::string& part) {
    return text.starts_with(part);
  });
}

Value endswith(Interpreter&, const Value& self, const Arguments& arguments) {
  return matches_any(self, arguments, [](const std::string& text, const std::string& part) {
    return text.ends_with(part);
  });
}

Value index_of(const Value& self, size_t found_byte) {
  if (found_byte == std::string::npos) return Value::integer(-1);
  const auto offsets = character_offsets(std::string_view(self.as_bytes()).substr(0, found_byte));
  return Value::integer(static_cast<int64_t>(offsets.size()) - 1);
}

Value find(Interpreter&, const Value& self, const Arguments& arguments) {
  return index_of(self, self.as_bytes().find(required_text(arguments, 0, "sub").bytes()));
}

Value rfind(Interpreter&, const Value& self, const Arguments& arguments) {
  return index_of(self, self.as_bytes().rfind(required_text(arguments, 0, "sub").bytes()));
}

Value replace(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Text& from = required_text(arguments, 0, "old");
  const Text& to = required_text(arguments, 1, "new");
  // Before the work, so that a long replacement can't outgrow the limit on the way.
  const size_t most = self.as_bytes().size() / std::max<size_t>(1, from.size_bytes()) + 1;
  interpreter.charge_bytes(self.as_bytes().size());
  if (!to.empty()) interpreter.charge_bytes(std::min(most, size_t{1} << 20) * to.size_bytes() / 16);
  return text_value(interpreter, replaced(self.as_text(), from.bytes(), to,
                                          optional_integer(arguments, 2, "count", -1)));
}

Value count_text(Interpreter&, const Value& self, const Arguments& arguments) {
  const std::string& part = required_text(arguments, 0, "sub").bytes();
  if (part.empty()) {
    return Value::integer(static_cast<int64_t>(character_offsets(self.as_bytes()).size()));
  }
  int64_t count = 0;
  for (size_t at = 0; (at = self.as_bytes().find(part, at)) != std::string::npos;
       at += part.size()) {
    ++count;
  }
  return Value::integer(count);
}

Value join(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Value* items = arguments.find(0, "iterable");
  if (items == nullptr) fail("TypeError: join() takes exactly one argument");
  Text text;
  bool first = true;
  for (const Value& item : interpreter.iterate(*items)) {
    if (!item.is(Kind::kString)) {
      fail("TypeError: sequence item: expected str instance, " + item.type_name() + " found");
    }
    interpreter.charge_bytes(self.as_bytes().size() + item.as_bytes().size());
    if (!first) text.append(self.as_text());
    first = false;
    text.append(item.as_text());
  }
  return Value::string(std::move(text));
}

Value remove_prefix(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const std::string& part = required_text(arguments, 0, "prefix").bytes();
  const size_t cut = self.as_bytes().starts_with(part) ? part.size() : 0;
  return text_value(interpreter, self.as_text().slice(cut, self.as_bytes().size() - cut));
}

Value remove_suffix(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const std::string& part = required_text(arguments, 0, "suffix").bytes();
  const size_t cut = self.as_bytes().ends_with(part) ? part.size() : 0;
  return text_value(interpreter, self.as_text().slice(0, self.as_bytes().size() - cut));
}

Value is_digit(Interpreter&, const Value& self, const Arguments&) {
  const std::string& bytes = self.as_bytes();
  return Value::boolean(!bytes.empty() &&
                        bytes.find_first_not_of("0123456789") == std::string::npos);
}

Value is_upper_method(Interpreter&, const Value& self, const Arguments&) {
  return Value::boolean(is_upper(self.as_text()));
}
Value is_lower_method(Interpreter&, const Value& self, const Arguments&) {
  return Value::boolean(is_lower(self.as_text()));
}

// "{} {0} {name}", without format specifications.
Value format(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Text& pattern = self.as_text();
  const std::string& bytes = pattern.bytes();
  Text out;
  size_t next = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    const bool doubled = at + 1 < bytes.size() && bytes[at + 1] == bytes[at];
    if ((bytes[at] != '{' && bytes[at] != '}') || doubled) {
      out.append(pattern, at, 1);
      if (bytes[at] == '{' || bytes[at] == '}') ++at;
      continue;
    }
    const size_t end = bytes.find('}', at);
    if (bytes[at] == '}' || end == std::string::npos) fail("ValueError: unbalanced '{' or '}'");
    const std::string field = bytes.substr(at + 1, end - at - 1);
    if (field.find_first_of("!:.[") != std::string::npos) {
      fail("ValueError: format field '" + field + "' is not supported");
    }
    const bool numbered = !field.empty() && field.find_first_not_of("0123456789") == field.npos;
    const size_t index = field.empty() ? next++ : numbered && field.size() < 9
                                                      ? static_cast<size_t>(std::stoul(field))
                                                      : SIZE_MAX;
    const Value* value = arguments.find(index, field);
    if (value == nullptr) fail("IndexError: no argument for format field '" + field + "'");
    out.append(interpreter.to_text(*value));
    at = end;
  }
  return text_value(interpreter, std::move(out));
}

Value get(Interpreter&, const Value& self, const Arguments& arguments) {
  const Value* key = arguments.find(0, "key");
  if (key == nullptr) fail("TypeError: get expected at least 1 argument");
  if (const Value* found = self.as_dict().find(*key)) return *found;
  const Value* fallback = arguments.find(1, "default");
  return fallback == nullptr ? Value() : *fallback;
}

Value keys(Interpreter& interpreter, const Value& self, const Arguments&) {
  return Value::list(interpreter.iterate(self));
}

Value values(Interpreter& interpreter, const Value& self, const Arguments&) {
  Values items;
  for (const auto& [key, value] : self.as_dict().entries()) items.push_back(value);
  interpreter.charge_steps(items.size());
  return Value::list(std::move(items));
}

Value items(Interpreter& interpreter, const Value& self, const Arguments&) {
  Values pairs;
  for (const auto& [key, value] : self.as_dict().entries()) {
    pairs.push_back(Value::tuple({key, value}));
  }
  interpreter.charge_steps(pairs.size());
  return Value::list(std::move(pairs));
}

Value copy(Interpreter&, const Value& self, const Arguments&) { return self; }

Value index(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Value* wanted = arguments.find(0, "value");
  if (wanted == nullptr) fail("TypeError: index expected at least 1 argument");
  interpreter.charge_steps(self.as_items().size());
  const auto& list = self.as_items();
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const Value& item) { return equal(item, *wanted); });
  if (found == list.end()) fail("ValueError: the value is not in the list");
  return Value::integer(found - list.begin());
}

Value count_items(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  const Value* wanted = arguments.find(0, "value");
  if (wanted == nullptr) fail("TypeError: count expected 1 argument");
  interpreter.charge_steps(self.as_items().size());
  return Value::integer(std::count_if(self.as_items().begin(), self.as_items().end(),
                                      [&](const Value& item) { return equal(item, *wanted); }));
}

struct Entry {
  const char* name;
  Method method;
};

constexpr Entry kTextMethods[] = {
    {"strip", strip<Ends::kBoth>},     {"lstrip", strip<Ends::kLeft>},
    {"rstrip", strip<Ends::kRight>},   {"split", split_method},
    {"rsplit", rsplit_method},         {"splitlines", splitlines},
    {"startswith", startswith},        {"endswith", endswith},
    {"find", find},                    {"rfind", rfind},
    {"replace", replace},              {"count", count_text},
    {"upper", mapped<upper>},          {"lower", mapped<lower>},
    {"title", mapped<title_case>},     {"capitalize", mapped<capitalized>},
    {"join", join},                    {"removeprefix", remove_prefix},
    {"removesuffix", remove_suffix},   {"isdigit", is_digit},
    {"isupper", is_upper_method},      {"islower", is_lower_method},
    {"format", format},
};
constexpr Entry kDictMethods[] = {
    {"get", get}, {"keys", keys}, {"values", values}, {"items", items}, {"copy", copy},
};
constexpr Entry kListMethods[] = {{"index", index}, {"count", count_items}};

template <size_t N>
Method find_in(const Entry (&table)[N], const std::string& name) {
  for (const Entry& entry : table) {
    if (name == entry.name) return entry.method;
  }
  return nullptr;
}

}  // namespace

Method find_method(const Value& self, const std::string& name) {
  switch (self.kind()) {
    case Kind::kString: return find_in(kTextMethods, name);
    case Kind::kDict: return find_in(kDictMethods, name);
    case Kind::kList:
    case Kind::kTuple: return find_in(kListMethods, name);
    default: return nullptr;
  }
}

}  // namespace tandem::chat_template
