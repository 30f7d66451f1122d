#include "fixtures.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

#include "model/format/gguf_file.h"
#include "model/tokenizer/gguf_vocabulary.h"
#include "model/tokenizer/utf8.h"

namespace tandem::tokenizer {
namespace {

std::string byte_spelling(int byte) {
  static const std::string kPrintable = [] {
    std::string bytes;
    for (int b = 0; b < 256; ++b) {
      if ((b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE) {
        bytes.push_back(static_cast<char>(b));
      }
    }
    return bytes;
  }();
  int code = byte;
  if (kPrintable.find(static_cast<char>(byte)) == std::string::npos) {
    code = 256;
    for (int b = 0; b < byte; ++b) {
      if (kPrintable.find(static_cast<char>(b)) == std::string::npos) ++code;
    }
  }
  std::string spelling;
  append_utf8(static_cast<uint32_t>(code), spelling);
  return spelling;
}

std::optional<nlohmann::json> read_json(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  return nlohmann::json::parse(file);
}

std::optional<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string source_dir() {
  const char* source = std::getenv("TANDEM_SOURCE_DIR");
  return source == nullptr ? std::string() : source;
}

// nullopt when there is no such file; a file that can't be used fails the test.
std::optional<Tokenizer> load(const std::string& path) {
  if (!std::ifstream(path)) return std::nullopt;
  const Result<format::GgufFile> file = format::GgufFile::open(path);
  EXPECT_TRUE(file.ok()) << path;
  if (!file) return std::nullopt;
  Result<VocabularyData> data = vocabulary_from_gguf(*file);
  EXPECT_TRUE(data.ok()) << path;
  if (!data) return std::nullopt;
  Result<Tokenizer> tokenizer = Tokenizer::create(std::move(data).value());
  EXPECT_TRUE(tokenizer.ok()) << path;
  if (!tokenizer) return std::nullopt;
  return std::move(tokenizer).value();
}

}  // namespace

VocabularyData toy_data(const std::vector<std::string>& merges) {
  VocabularyData data;
  data.model = "gpt2";
  data.pre = "smollm";
  for (int byte = 0; byte < 256; ++byte) data.tokens.push_back(byte_spelling(byte));
  for (const std::string& merge : merges) {
    const size_t space = merge.find(' ');
    data.tokens.push_back(merge.substr(0, space) + merge.substr(space + 1));
  }
  data.types.assign(data.tokens.size(), TokenType::kNormal);
  data.bos = static_cast<TokenId>(data.tokens.size());
  data.eos = *data.bos + 1;
  data.tokens.insert(data.tokens.end(), {"<s>", "</s>", "<think>"});
  data.types.insert(data.types.end(),
                    {TokenType::kControl, TokenType::kControl, TokenType::kUserDefined});
  data.merges = merges;
  return data;
}

Tokenizer toy_tokenizer(const std::vector<std::string>& merges) {
  return Tokenizer::create(toy_data(merges)).value();
}

std::vector<TokenId> ids_of(const Result<std::vector<TokenId>>& result) {
  EXPECT_TRUE(result.ok()) << (result ? "" : result.error().message);
  return result ? *result : std::vector<TokenId>{};
}

std::optional<nlohmann::json> shared_fixture(const std::string& path) {
  return read_json(source_dir() + "/../shared/fixtures/" + path);
}

std::optional<std::string> shared_text(const std::string& path) {
  return read_text(source_dir() + "/../shared/fixtures/" + path);
}

std::string golden_text(const std::string& path) {
  return read_text(source_dir() + "/tests/golden/" + path).value();
}

std::optional<Tokenizer> real_tokenizer() {
  if (const char* path = std::getenv("TANDEM_MODEL")) return load(path);
  const char* home = std::getenv("HOME");
  if (home == nullptr) return std::nullopt;
  return load(std::string(home) + "/.cache/tandem/models/SmolLM2-135M-Instruct.Q4_1.gguf");
}

std::optional<Tokenizer> shared_tokenizer(const std::string& gguf) {
  return load(source_dir() + "/../shared/fixtures/" + gguf);
}

Tokenizer tiny_tokenizer() {
  return load(source_dir() + "/tests/golden/gguf/llama-Q4_0.gguf").value();
}

std::string from_base64(const std::string& text) {
  static const std::string kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = (bits << 6) | static_cast<uint32_t>(kAlphabet.find(c));
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    out.push_back(static_cast<char>((bits >> num_bits) & 0xFF));
  }
  return out;
}

}  // namespace tandem::tokenizer
