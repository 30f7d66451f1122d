#pragma once
// What several tokenizer tests need: a hand-made vocabulary that is always there, and the files
// that may be absent (the shared fixtures and the real model).

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

#include "model/tokenizer/tokenizer.h"

namespace tandem::tokenizer {

// All 256 byte tokens in byte order (id = byte), then the merges' results in order, then two
// control tokens <s> and </s> and the user-defined token <think>.
VocabularyData toy_data(const std::vector<std::string>& merges = {});
Tokenizer toy_tokenizer(const std::vector<std::string>& merges = {});
std::vector<TokenId> ids_of(const Result<std::vector<TokenId>>& result);

// nullopt when absent.
std::optional<nlohmann::json> shared_fixture(const std::string& path);
std::optional<std::string> shared_text(const std::string& path);
std::optional<Tokenizer> real_tokenizer();
std::optional<Tokenizer> shared_tokenizer(const std::string& gguf);
// Of a file in tests/golden, which is always there.
Tokenizer tiny_tokenizer();
std::string golden_text(const std::string& path);

std::string from_base64(const std::string& text);

}  // namespace tandem::tokenizer
