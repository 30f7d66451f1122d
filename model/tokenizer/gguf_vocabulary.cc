#include "model/tokenizer/gguf_vocabulary.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::tokenizer {
namespace {

constexpr int64_t kLastTokenType = static_cast<int64_t>(TokenType::kByte);

Result<std::vector<std::string>> read_strings(const format::GgufFile& file, const char* key) {
  const auto strings = file.strings_at(key);
  if (!strings) return strings.error();
  return std::vector<std::string>(strings->begin(), strings->end());
}

Result<std::vector<TokenType>> read_types(const format::GgufFile& file) {
  std::vector<TokenType> types;
  const format::MetadataValue* value = file.find("tokenizer.ggml.token_type");
  if (value == nullptr) return types;
  const auto numbers = value->as_ints();
  if (!numbers) return numbers.error();
  types.reserve(numbers->size());
  for (const int64_t number : *numbers) {
    if (number < 0 || number > kLastTokenType) {
      return Error{ErrorCode::kCorrupt, "token type " + std::to_string(number) + " is unknown",
                   "tokenizer.ggml.token_type"};
    }
    types.push_back(static_cast<TokenType>(number));
  }
  return types;
}

Result<std::optional<TokenId>> read_id(const format::GgufFile& file, const char* key) {
  const format::MetadataValue* value = file.find(key);
  if (value == nullptr) return std::optional<TokenId>();
  const auto number = value->as_int();
  if (!number) return number.error();
  if (*number < 0 || *number > std::numeric_limits<TokenId>::max()) {
    return Error{ErrorCode::kCorrupt, std::string(key) + " is " + std::to_string(*number), key};
  }
  return std::optional<TokenId>(static_cast<TokenId>(*number));
}

Result<bool> read_flag(const format::GgufFile& file, const char* key) {
  const format::MetadataValue* value = file.find(key);
  return value == nullptr ? Result<bool>(false) : value->as_bool();
}

// Moves the value to its place; of several errors the first stays.
template <typename T>
void take(Result<T> result, T& place, std::optional<Error>& error) {
  if (result) {
    place = std::move(result).value();
  } else if (!error) {
    error = result.error();
  }
}

}  // namespace

Result<VocabularyData> vocabulary_from_gguf(const format::GgufFile& file) {
  VocabularyData data;
  const auto model = file.string_at("tokenizer.ggml.model");
  if (!model) return model.error();
  data.model = *model;
  const auto pre = file.string_at("tokenizer.ggml.pre");
  if (!pre) return pre.error();
  data.pre = *pre;
  std::optional<Error> error;
  take(read_strings(file, "tokenizer.ggml.tokens"), data.tokens, error);
  take(read_types(file), data.types, error);
  if (file.find("tokenizer.ggml.merges") != nullptr) {  // a vocabulary of single bytes has none
    take(read_strings(file, "tokenizer.ggml.merges"), data.merges, error);
  }
  take(read_id(file, "tokenizer.ggml.bos_token_id"), data.bos, error);
  take(read_id(file, "tokenizer.ggml.eos_token_id"), data.eos, error);
  take(read_id(file, "tokenizer.ggml.unknown_token_id"), data.unk, error);
  take(read_id(file, "tokenizer.ggml.padding_token_id"), data.pad, error);
  take(read_flag(file, "tokenizer.ggml.add_bos_token"), data.add_bos, error);
  if (error) return *error;
  return data;
}

}  // namespace tandem::tokenizer
