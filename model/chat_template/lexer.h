#pragma once
// Template source to tokens, with Jinja's white space rules: trim_blocks and lstrip_blocks on,
// keep_trailing_newline off, line ends normalised to \n.

#include <string>
#include <string_view>
#include <vector>

namespace tandem::chat_template {

struct Token {
  enum class Type {
    kData,
    kVariableBegin,
    kVariableEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,    // text is unescaped
    kInteger,   // text is the decimal, hexadecimal, … spelling without "_"
    kFloat,
    kOperator,
    kEnd,
  };
  Type type = Type::kEnd;
  std::string text;
  int line = 0;
};

// The last token is kEnd. Throws TemplateError (kSyntax). Requires: source is valid UTF-8.
std::vector<Token> tokenize(std::string_view source);

}  // namespace tandem::chat_template
