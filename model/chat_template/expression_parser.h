#pragma once
// Expressions of the template language, by recursive descent. Precedence, lowest first:
// x if c else y; or; and; not; comparisons and in; + -; ~; * / // %; **; unary - +; postfix; | is

#include <string>
#include <string_view>
#include <vector>

#include "model/chat_template/ast.h"
#include "model/chat_template/lexer.h"

namespace tandem::chat_template {

// A position in the tokens and what can be parsed there. Lives during one parse.
// Throws TemplateError (kSyntax, kUnsupported) with the line.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek() const { return tokens_[at_]; }
  Token next();
  bool is(Token::Type type) const { return peek().type == type; }
  bool is(Token::Type type, std::string_view text) const;
  bool is_operator(std::string_view text) const { return is(Token::Type::kOperator, text); }
  bool is_name(std::string_view text) const { return is(Token::Type::kName, text); }
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  void expect_name(std::string_view text);
  std::string expect_any_name();
  [[noreturn]] void fail_here(std::string message) const;
  [[noreturn]] void unsupported(const std::string& what, int line) const;

  ExpressionPtr parse_expression();
  // An expression, or several with commas between them: a tuple.
  ExpressionPtr parse_tuple(bool allow_condition = true);
  // The `| a | b` of filter blocks; with_bar: the first one has its bar too.
  ExpressionPtr parse_block_filters(bool with_bar);

 private:
  friend class Nesting;

  ExpressionPtr parse_condition();
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_compare();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concat();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filters);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_name(const Token& token);
  ExpressionPtr parse_number(const Token& token);
  ExpressionPtr parse_parentheses(int line);
  ExpressionPtr parse_list(int line);
  ExpressionPtr parse_dict(int line);
  ExpressionPtr parse_postfix(ExpressionPtr operand);
  ExpressionPtr parse_subscript(ExpressionPtr operand);
  ExpressionPtr parse_filters(ExpressionPtr operand);
  ExpressionPtr parse_filter(ExpressionPtr operand);
  ExpressionPtr parse_test(ExpressionPtr operand);
  void parse_arguments(Expression& call);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace tandem::chat_template
