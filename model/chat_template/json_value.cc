#include "model/chat_template/json_value.h"

#include <nlohmann/json.hpp>

#include <limits>
#include <utility>

#include "model/chat_template/template_error.h"
#include "model/tokenizer/utf8.h"

namespace tandem::chat_template {
namespace {

Value text_value(const std::string& bytes, Origin origin) {
  if (tokenizer::find_invalid_utf8(bytes) != bytes.size()) fail("a string is not valid UTF-8");
  return Value::string(Text(bytes, origin));
}

Value convert(const nlohmann::ordered_json& json, Origin origin, int depth) {
  using Type = nlohmann::ordered_json::value_t;
  if (depth > Value::kMaxDepth) {
    throw TemplateError{TemplateError::Kind::kLimit, "a value is nested too deeply", 0};
  }
  switch (json.type()) {
    case Type::boolean: return Value::boolean(json.get<bool>());
    case Type::number_integer: return Value::integer(json.get<int64_t>());
    case Type::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > uint64_t{std::numeric_limits<int64_t>::max()}) {
        return Value::real(static_cast<double>(number));
      }
      return Value::integer(static_cast<int64_t>(number));
    }
    case Type::number_float: return Value::real(json.get<double>());
    case Type::string: return text_value(json.get_ref<const std::string&>(), origin);
    case Type::array: {
      Values items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(convert(item, origin, depth + 1));
      return Value::list(std::move(items));
    }
    case Type::object: {
      Dict dict;
      for (const auto& [key, item] : json.items()) {
        dict.set(text_value(key, origin), convert(item, origin, depth + 1));
      }
      return Value::dict(std::move(dict));
    }
    default: return Value();
  }
}

}  // namespace

Value value_from_json(const nlohmann::ordered_json& json, Origin origin) {
  return convert(json, origin, 0);
}

}  // namespace tandem::chat_template
