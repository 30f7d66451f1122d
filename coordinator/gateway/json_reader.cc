#include "coordinator/gateway/json_reader.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tandem::gateway {
namespace {

constexpr size_t kMaxShownKey = 64;

std::string shown_key(const std::string& key) {
  return key.size() <= kMaxShownKey ? key : key.substr(0, kMaxShownKey) + "...";
}

// Builds the document while it is parsed, so that limits hold before memory is taken and an error
// knows where it is.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  bool null() override { return add(nullptr) != nullptr; }
  bool boolean(bool value) override { return add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override {
    return add(value) != nullptr;
  }
  bool string(string_t& value) override { return add(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return fail("binary values are not JSON"); }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    level.key = name;
    if (level.container->contains(name)) return fail("the key occurs twice in one object");
    return true;
  }

  bool parse_error(size_t position, const std::string& token,
                   const nlohmann::detail::exception& cause) override {
    if (cause.id == 406) return fail("the number is too large");
    std::string message = "not valid JSON at byte " + std::to_string(position);
    if (!token.empty() && token.size() <= 24) message += " near '" + token + "'";
    return fail(message);
  }

  Result<Json> take() {
    if (error_) return *error_;
    return std::move(root_);
  }

 private:
  struct Level {
    Json* container;    // points into root_; stable while the level is open
    std::string key;    // of the value being read, in an object
  };

  Json* add(Json value) {
    if (++num_values_ > limits_.max_values) {
      fail("more than " + std::to_string(limits_.max_values) + " values");
      return nullptr;
    }
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = levels_.back();
    if (level.container->is_array()) {
      level.container->push_back(std::move(value));
      return &level.container->back();
    }
    return &((*level.container)[level.key] = std::move(value));
  }

  bool open(Json value) {
    if (levels_.size() >= limits_.max_depth) {
      return fail("nested deeper than " + std::to_string(limits_.max_depth) + " levels");
    }
    Json* container = add(std::move(value));
    if (container == nullptr) return false;
    levels_.push_back({container, {}});
    return true;
  }

  bool close() {
    levels_.pop_back();
    if (!levels_.empty()) levels_.back().key.clear();
    return true;
  }

  bool fail(const std::string& message) {
    if (!error_) error_ = Error{ErrorCode::kInvalidArgument, message, path()};
    return false;
  }

  // Three levels say enough; a hostile body must not make a long message.
  std::string path() const {
    std::string path;
    for (size_t i = 0; i < levels_.size() && i < 3; ++i) {
      const Level& level = levels_[i];
      if (level.container->is_array()) {
        // What is open inside is an element already; what failed at the end is not.
        const size_t index = level.container->size() - (i + 1 < levels_.size() ? 1 : 0);
        if (!path.empty()) path += '[' + std::to_string(index) + ']';
      } else if (!level.key.empty()) {
        path += (path.empty() ? "" : ".") + shown_key(level.key);
      }
    }
    return path.empty() ? "body" : path;
  }

  const JsonLimits& limits_;
  Json root_;
  std::vector<Level> levels_;
  size_t num_values_ = 0;
  std::optional<Error> error_;
};

}  // namespace

Result<Json> read_json(std::string_view body, const JsonLimits& limits) {
  Builder builder(limits);
  Json::sax_parse(body.begin(), body.end(), &builder);
  return builder.take();
}

Result<Json> read_json_object(std::string_view body, const JsonLimits& limits) {
  Result<Json> value = read_json(body, limits);
  if (value.ok() && !value->is_object()) {
    return Error{ErrorCode::kInvalidArgument,
                 std::string("the body must be a JSON object, not ") + json_kind(*value), "body"};
  }
  return value;
}

const char* json_kind(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::boolean: return "a boolean";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
    case Json::value_t::number_float: return "a number";
    case Json::value_t::string: return "a string";
    case Json::value_t::array: return "a list";
    case Json::value_t::object: return "an object";
    default: return "something else";
  }
}

}  // namespace tandem::gateway
