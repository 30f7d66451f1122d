#include "model/tokenizer/vocabulary.h"

#include <utility>

#include "model/tokenizer/byte_level.h"
#include "model/tokenizer/utf8.h"

namespace tandem::tokenizer {
namespace {

constexpr size_t kMaxTokens = size_t{1} << 24;

uint64_t pair_key(TokenId left, TokenId right) {
  return (uint64_t{left} << 32) | right;
}

Error corrupt(std::string field, std::string message) {
  return {ErrorCode::kCorrupt, std::move(message), std::move(field)};
}

bool keeps_spelling(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUserDefined ||
         type == TokenType::kUnknown;
}

Status check_id(const std::optional<TokenId>& id, size_t size, const char* field) {
  if (!id || *id < size) return {};
  return corrupt(field, std::string(field) + " " + std::to_string(*id) +
                            " is outside the vocabulary of " + std::to_string(size) + " tokens");
}

}  // namespace

Result<Vocabulary> Vocabulary::create(VocabularyData data) {
  if (data.model != "gpt2") {
    return Error{ErrorCode::kUnsupported,
                 "tokenizer model \"" + data.model + "\" is not supported (supported: gpt2)",
                 "tokenizer.ggml.model"};
  }
  if (data.tokens.empty() || data.tokens.size() > kMaxTokens) {
    return corrupt("tokenizer.ggml.tokens",
                   "a vocabulary of " + std::to_string(data.tokens.size()) + " tokens");
  }
  if (!data.types.empty() && data.types.size() != data.tokens.size()) {
    return corrupt("tokenizer.ggml.token_type",
                   std::to_string(data.types.size()) + " token types for " +
                       std::to_string(data.tokens.size()) + " tokens");
  }
  const std::pair<const std::optional<TokenId>&, const char*> ids[] = {
      {data.bos, "tokenizer.ggml.bos_token_id"},
      {data.eos, "tokenizer.ggml.eos_token_id"},
      {data.unk, "tokenizer.ggml.unknown_token_id"},
      {data.pad, "tokenizer.ggml.padding_token_id"}};
  for (const auto& [id, field] : ids) {
    if (Status status = check_id(id, data.tokens.size(), field); !status) return status.error();
  }
  if (data.add_bos && !data.bos) {
    return corrupt("tokenizer.ggml.add_bos_token", "add_bos_token without a bos_token_id");
  }
  Vocabulary vocabulary;
  vocabulary.bos_ = data.bos;
  vocabulary.eos_ = data.eos;
  vocabulary.add_bos_ = data.add_bos;
  if (Status status = vocabulary.index_tokens(data); !status) return status.error();
  if (Status status = vocabulary.index_merges(data); !status) return status.error();
  return vocabulary;
}

Status Vocabulary::index_tokens(const VocabularyData& data) {
  byte_tokens_.fill(kNoToken);
  types_ = data.types;
  types_.resize(data.tokens.size(), TokenType::kNormal);
  bytes_.reserve(data.tokens.size());
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    const std::string& spelling = data.tokens[i];
    const auto id = static_cast<TokenId>(i);
    if (find_invalid_utf8(spelling) != spelling.size()) {
      return corrupt("tokenizer.ggml.tokens", "token " + std::to_string(i) + " is not UTF-8");
    }
    if (keeps_spelling(types_[i])) {
      bytes_.push_back(spelling);
      if (types_[i] != TokenType::kUnknown && !spelling.empty()) {
        specials_.push_back({.text = spelling, .id = id});
      }
      continue;
    }
    bytes_.push_back(byte_level_decode(spelling).value_or(spelling));
    if (bytes_.back().size() == 1 && types_[i] == TokenType::kNormal) {
      byte_tokens_[static_cast<uint8_t>(bytes_.back()[0])] = id;
    }
  }
  return {};
}

Status Vocabulary::index_merges(const VocabularyData& data) {
  std::unordered_map<std::string_view, TokenId> ids;
  ids.reserve(data.tokens.size());
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    ids.emplace(data.tokens[i], static_cast<TokenId>(i));
  }
  merges_.reserve(data.merges.size());
  for (size_t rank = 0; rank < data.merges.size(); ++rank) {
    const std::string_view merge = data.merges[rank];
    const size_t space = merge.find(' ', 1);  // a piece is never empty and contains no space
    if (space == std::string_view::npos) {
      return corrupt("tokenizer.ggml.merges",
                     "merge " + std::to_string(rank) + " does not name two pieces");
    }
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    const auto left_id = ids.find(left), right_id = ids.find(right);
    const auto result = ids.find(std::string(left).append(right));
    if (left_id == ids.end() || right_id == ids.end() || result == ids.end()) {
      return corrupt("tokenizer.ggml.merges", "merge " + std::to_string(rank) +
                                                  " names a piece that is no token: \"" +
                                                  data.merges[rank] + "\"");
    }
    merges_.emplace(pair_key(left_id->second, right_id->second),
                    Merge{.rank = static_cast<uint32_t>(rank), .result = result->second});
  }
  return {};
}

std::string_view Vocabulary::bytes(TokenId id) const {
  return id < bytes_.size() ? std::string_view(bytes_[id]) : std::string_view();
}

bool Vocabulary::is_control(TokenId id) const {
  if (id >= types_.size()) return false;
  const TokenType type = types_[id];
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

const Vocabulary::Merge* Vocabulary::find_merge(TokenId left, TokenId right) const {
  const auto it = merges_.find(pair_key(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

}  // namespace tandem::tokenizer
