#pragma once
// Reads the metadata keys of one architecture with ranges, and remembers which ones were read:
// a key that nobody read might change what the model means. The first failure sticks; readers
// after it give their lower bound. Lives on a stack, private to the module.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "comm/runtime/result.h"
#include "model/format/gguf_file.h"

namespace tandem::spec {

class KeyReader {
 public:
  // prefix: "llama."; the keys below are given without it.
  KeyReader(const format::GgufFile& file, std::string prefix)
      : file_(file), prefix_(std::move(prefix)) {}

  bool has(const std::string& key) const { return file_.find(prefix_ + key) != nullptr; }

  // Requires the key unless a fallback is given.
  int32_t integer(const std::string& key, int32_t low, int32_t high,
                  std::optional<int32_t> fallback = std::nullopt);
  // NaN and infinities are out of every range.
  double real(const std::string& key, double low, double high,
              std::optional<double> fallback = std::nullopt);
  bool boolean(const std::string& key, bool fallback);
  std::string text(const std::string& key, const std::string& fallback);

  // The first failure wins. key without prefix.
  void fail(ErrorCode code, const std::string& key, const std::string& message);

  Status failure() const { return error_ ? Status(*error_) : Status(); }

  // The first failure, or kUnsupported naming the first key of the prefix that was not read.
  Status finish() const;

 private:
  const format::MetadataValue* visit(const std::string& key, bool required);

  const format::GgufFile& file_;
  std::string prefix_;
  std::set<std::string> visited_;
  std::optional<Error> error_;
};

}  // namespace tandem::spec
