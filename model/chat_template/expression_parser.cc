#include "model/chat_template/expression_parser.h"

#include <charconv>
#include <cstdlib>
#include <initializer_list>

#include "model/chat_template/filters.h"
#include "model/chat_template/template_error.h"
#include "model/chat_template/value_tests.h"

namespace tandem::chat_template {

using Kind = Expression::Kind;
using Type = Token::Type;

namespace {

constexpr int kMaxNesting = 100;

std::unique_ptr<Expression> make(Kind kind, int line) {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  return node;
}

std::unique_ptr<Expression> make(Kind kind, int line, ExpressionPtr operand) {
  auto node = make(kind, line);
  node->operands.push_back(std::move(operand));
  return node;
}

std::unique_ptr<Expression> make(Kind kind, int line, ExpressionPtr left, ExpressionPtr right) {
  auto node = make(kind, line, std::move(left));
  node->operands.push_back(std::move(right));
  return node;
}

ExpressionPtr constant(Value value, int line) {
  auto node = make(Kind::kConstant, line);
  node->constant = std::move(value);
  return node;
}

std::string described(const Token& token) {
  switch (token.type) {
    case Type::kData: return "template data";
    case Type::kVariableBegin: return "'{{'";
    case Type::kVariableEnd: return "'}}'";
    case Type::kBlockBegin: return "'{%'";
    case Type::kBlockEnd: return "'%}'";
    case Type::kEnd: return "end of template";
    default: return "'" + token.text + "'";
  }
}

}  // namespace

// Bounds the recursion, whatever the template nests.
class Nesting {
 public:
  explicit Nesting(ExpressionParser& parser) : parser_(parser) {
    if (++parser_.depth_ > kMaxNesting) parser_.fail_here("expressions are nested too deeply");
  }
  Nesting(const Nesting&) = delete;
  ~Nesting() { --parser_.depth_; }

 private:
  ExpressionParser& parser_;
};

Token ExpressionParser::next() {
  Token token = peek();
  if (token.type != Type::kEnd) ++at_;
  return token;
}

bool ExpressionParser::is(Type type, std::string_view text) const {
  return peek().type == type && peek().text == text;
}

bool ExpressionParser::skip_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  ++at_;
  return true;
}

bool ExpressionParser::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  ++at_;
  return true;
}

void ExpressionParser::expect_operator(std::string_view text) {
  if (skip_operator(text)) return;
  fail_here("expected '" + std::string(text) + "', got " + described(peek()));
}

void ExpressionParser::expect_name(std::string_view text) {
  if (skip_name(text)) return;
  fail_here("expected '" + std::string(text) + "', got " + described(peek()));
}

std::string ExpressionParser::expect_any_name() {
  if (!is(Type::kName)) fail_here("expected a name, got " + described(peek()));
  return next().text;
}

void ExpressionParser::fail_here(std::string message) const {
  throw TemplateError{TemplateError::Kind::kSyntax, std::move(message), peek().line};
}

void ExpressionParser::unsupported(const std::string& what, int line) const {
  throw TemplateError{TemplateError::Kind::kUnsupported, "unsupported construct " + what, line};
}

ExpressionPtr ExpressionParser::parse_expression() {
  const Nesting nesting(*this);
  return parse_condition();
}

ExpressionPtr ExpressionParser::parse_tuple(bool allow_condition) {
  const Nesting nesting(*this);
  const auto parse_one = [&] { return allow_condition ? parse_condition() : parse_or(); };
  const int line = peek().line;
  ExpressionPtr first = parse_one();
  if (!is_operator(",")) return first;
  auto tuple = make(Kind::kTuple, line, std::move(first));
  while (skip_operator(",")) {
    if (is(Type::kVariableEnd) || is(Type::kBlockEnd) || is_operator(")") || is_operator("]")) {
      break;
    }
    tuple->operands.push_back(parse_one());
  }
  return tuple;
}

ExpressionPtr ExpressionParser::parse_condition() {
  ExpressionPtr result = parse_or();
  while (is_name("if")) {
    const int line = next().line;
    ExpressionPtr condition = parse_or();
    const bool has_alternative = skip_name("else");
    auto node = make(Kind::kConditional, line, std::move(result), std::move(condition));
    node->operands.push_back(has_alternative ? parse_expression() : nullptr);
    result = std::move(node);
  }
  return result;
}

ExpressionPtr ExpressionParser::parse_or() {
  ExpressionPtr left = parse_and();
  while (is_name("or")) {
    const int line = next().line;
    left = make(Kind::kOr, line, std::move(left), parse_and());
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_and() {
  ExpressionPtr left = parse_not();
  while (is_name("and")) {
    const int line = next().line;
    left = make(Kind::kAnd, line, std::move(left), parse_not());
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_not() {
  if (!is_name("not")) return parse_compare();
  const Nesting nesting(*this);
  const int line = next().line;
  auto node = make(Kind::kUnary, line, parse_not());
  node->name = "not";
  return node;
}

ExpressionPtr ExpressionParser::parse_compare() {
  const int line = peek().line;
  ExpressionPtr first = parse_sum();
  std::unique_ptr<Expression> node;
  while (true) {
    std::string name;
    for (const char* op : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (is_operator(op)) name = op;
    }
    if (is_name("in")) name = "in";
    if (is_name("not") && tokens_[at_ + 1].type == Type::kName && tokens_[at_ + 1].text == "in") {
      name = "not in";
      ++at_;
    }
    if (name.empty()) break;
    ++at_;
    if (node == nullptr) node = make(Kind::kCompare, line, std::move(first));
    node->names.push_back(std::move(name));
    node->operands.push_back(parse_sum());
  }
  if (node == nullptr) return first;
  return node;
}

ExpressionPtr ExpressionParser::parse_sum() {
  ExpressionPtr left = parse_concat();
  while (is_operator("+") || is_operator("-")) {
    const Token op = next();
    auto node = make(Kind::kBinary, op.line, std::move(left), parse_concat());
    node->name = op.text;
    left = std::move(node);
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_concat() {
  ExpressionPtr first = parse_product();
  if (!is_operator("~")) return first;
  auto node = make(Kind::kConcat, peek().line, std::move(first));
  while (skip_operator("~")) node->operands.push_back(parse_product());
  return node;
}

ExpressionPtr ExpressionParser::parse_product() {
  ExpressionPtr left = parse_power();
  while (is_operator("*") || is_operator("/") || is_operator("//") || is_operator("%")) {
    const Token op = next();
    auto node = make(Kind::kBinary, op.line, std::move(left), parse_power());
    node->name = op.text;
    left = std::move(node);
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_power() {
  ExpressionPtr left = parse_unary(true);
  while (is_operator("**")) {  // from left to right, unlike Python
    const Token op = next();
    auto node = make(Kind::kBinary, op.line, std::move(left), parse_unary(true));
    node->name = op.text;
    left = std::move(node);
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filters) {
  ExpressionPtr result;
  if (is_operator("-") || is_operator("+")) {
    const Nesting nesting(*this);
    const Token op = next();
    auto node = make(Kind::kUnary, op.line, parse_unary(false));
    node->name = op.text;
    result = std::move(node);
  } else {
    result = parse_primary();
  }
  result = parse_postfix(std::move(result));
  return with_filters ? parse_filters(std::move(result)) : std::move(result);
}

ExpressionPtr ExpressionParser::parse_primary() {
  const Token token = peek();
  switch (token.type) {
    case Type::kName: ++at_; return parse_name(token);
    case Type::kInteger:
    case Type::kFloat: ++at_; return parse_number(token);
    case Type::kString: {
      std::string text;
      while (is(Type::kString)) text += next().text;
      return constant(Value::string(markup(text)), token.line);
    }
    default: break;
  }
  if (skip_operator("(")) return parse_parentheses(token.line);
  if (skip_operator("[")) return parse_list(token.line);
  if (skip_operator("{")) return parse_dict(token.line);
  fail_here("unexpected " + described(token));
}

ExpressionPtr ExpressionParser::parse_name(const Token& token) {
  const std::string& name = token.text;
  if (name == "true" || name == "True") return constant(Value::boolean(true), token.line);
  if (name == "false" || name == "False") return constant(Value::boolean(false), token.line);
  if (name == "none" || name == "None") return constant(Value(), token.line);
  auto node = make(Kind::kName, token.line);
  node->name = name;
  return node;
}

ExpressionPtr ExpressionParser::parse_number(const Token& token) {
  const std::string& text = token.text;
  if (token.type == Type::kFloat) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      // from_chars reports values beyond the range; strtod rounds them as Python does.
      value = std::strtod(text.c_str(), nullptr);
    }
    return constant(Value::real(value), token.line);
  }
  int base = 10;
  std::string_view digits = text;
  if (digits.size() > 2 && digits[0] == '0' && (digits[1] | 0x20) >= 'a') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    base = letter == 'x' ? 16 : letter == 'o' ? 8 : 2;
    digits.remove_prefix(2);
  }
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error == std::errc::result_out_of_range) {
    unsupported("integer beyond 64 bits", token.line);
  }
  if (error != std::errc() || end != digits.data() + digits.size()) {
    fail_here("bad number '" + text + "'");
  }
  return constant(Value::integer(value), token.line);
}

ExpressionPtr ExpressionParser::parse_parentheses(int line) {
  if (skip_operator(")")) return make(Kind::kTuple, line);
  ExpressionPtr inside = parse_tuple();
  expect_operator(")");
  return inside;
}

ExpressionPtr ExpressionParser::parse_list(int line) {
  auto node = make(Kind::kList, line);
  while (!is_operator("]")) {
    if (!node->operands.empty()) expect_operator(",");
    if (is_operator("]")) break;
    node->operands.push_back(parse_expression());
  }
  expect_operator("]");
  return node;
}

ExpressionPtr ExpressionParser::parse_dict(int line) {
  auto node = make(Kind::kDict, line);
  while (!is_operator("}")) {
    if (!node->operands.empty()) expect_operator(",");
    if (is_operator("}")) break;
    node->operands.push_back(parse_expression());
    expect_operator(":");
    node->operands.push_back(parse_expression());
  }
  expect_operator("}");
  return node;
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr operand) {
  while (true) {
    const int line = peek().line;
    if (skip_operator(".")) {
      if (is(Type::kInteger)) {
        ExpressionPtr index = parse_number(next());
        operand = make(Kind::kItem, line, std::move(operand), std::move(index));
        continue;
      }
      auto node = make(Kind::kAttribute, line, std::move(operand));
      node->name = expect_any_name();
      operand = std::move(node);
    } else if (skip_operator("[")) {
      operand = parse_subscript(std::move(operand));
    } else if (is_operator("(")) {
      auto node = make(Kind::kCall, line, std::move(operand));
      parse_arguments(*node);
      operand = std::move(node);
    } else {
      return operand;
    }
  }
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr operand) {
  const int line = peek().line;
  ExpressionPtr bounds[3];
  size_t index = 0;
  bool is_slice = false;
  while (!is_operator("]")) {
    if (skip_operator(":")) {
      is_slice = true;
      if (++index > 2) fail_here("a slice has three parts at most");
    } else if (bounds[index] != nullptr) {
      expect_operator("]");
    } else {
      bounds[index] = parse_expression();
    }
  }
  expect_operator("]");
  if (!is_slice && bounds[0] == nullptr) fail_here("expected a subscript");
  if (!is_slice) return make(Kind::kItem, line, std::move(operand), std::move(bounds[0]));
  auto node = make(Kind::kSlice, line, std::move(operand));
  for (ExpressionPtr& bound : bounds) node->operands.push_back(std::move(bound));
  return node;
}

void ExpressionParser::parse_arguments(Expression& call) {
  expect_operator("(");
  for (bool first = true; !is_operator(")"); first = false) {
    if (!first) expect_operator(",");
    if (is_operator(")")) break;
    if (is_operator("*") || is_operator("**")) {
      unsupported("'" + peek().text + "' in arguments", peek().line);
    }
    const Token& after = tokens_[std::min(at_ + 1, tokens_.size() - 1)];
    if (is(Type::kName) && after.type == Type::kOperator && after.text == "=") {
      std::string name = next().text;
      ++at_;
      call.named.emplace_back(std::move(name), parse_expression());
    } else if (!call.named.empty()) {
      fail_here("a positional argument after a named one");
    } else {
      call.operands.push_back(parse_expression());
    }
  }
  expect_operator(")");
}

ExpressionPtr ExpressionParser::parse_filters(ExpressionPtr operand) {
  while (true) {
    if (skip_operator("|")) {
      operand = parse_filter(std::move(operand));
    } else if (is_name("is")) {
      operand = parse_test(std::move(operand));
    } else if (is_operator("(")) {  // calls may follow filters and tests
      auto node = make(Kind::kCall, peek().line, std::move(operand));
      parse_arguments(*node);
      operand = std::move(node);
    } else {
      return operand;
    }
  }
}

ExpressionPtr ExpressionParser::parse_filter(ExpressionPtr operand) {
  const int line = peek().line;
  auto node = make(Kind::kFilter, line, std::move(operand));
  node->name = expect_any_name();
  node->filter = find_filter(node->name);
  if (node->filter == nullptr) unsupported("filter '" + node->name + "'", line);
  if (is_operator("(")) parse_arguments(*node);
  return node;
}

ExpressionPtr ExpressionParser::parse_block_filters(bool with_bar) {
  ExpressionPtr node = make(Kind::kBlockText, peek().line);
  if (!with_bar) node = parse_filter(std::move(node));
  while (skip_operator("|")) node = parse_filter(std::move(node));
  return node;
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr operand) {
  const int line = next().line;
  const bool negated = skip_name("not");
  auto node = make(Kind::kTest, line, std::move(operand));
  node->name = expect_any_name();
  node->test = find_test(node->name);
  if (node->test == nullptr) unsupported("test '" + node->name + "'", line);
  const bool ends = is_name("else") || is_name("or") || is_name("and");
  if (is_operator("(")) {
    parse_arguments(*node);
  } else if (is_name("is")) {
    fail_here("tests can't be chained with is");
  } else if (!ends && (is(Type::kName) || is(Type::kString) || is(Type::kInteger) ||
                       is(Type::kFloat) || is_operator("[") || is_operator("{"))) {
    node->operands.push_back(parse_postfix(parse_primary()));
  }
  if (!negated) return node;
  auto inverse = make(Kind::kUnary, line, std::move(node));
  inverse->name = "not";
  return inverse;
}

}  // namespace tandem::chat_template
