#include "model/chat_template/parser.h"

#include <initializer_list>
#include <utility>

#include "model/chat_template/expression_parser.h"
#include "model/chat_template/template_error.h"

namespace tandem::chat_template {
namespace {

using Kind = Statement::Kind;
using Type = Token::Type;

constexpr int kMaxNesting = 100;

class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Block parse_template() {
    Block block = parse_block({});
    return block;
  }

 private:
  // Statements up to a tag of one of these names, which is consumed except for its end; the name
  // is left in ended_by_. No names: up to the end of the template.
  Block parse_block(std::initializer_list<std::string_view> end_tags) {
    if (++depth_ > kMaxNesting) tokens_.fail_here("blocks are nested too deeply");
    Block block;
    while (true) {
      const Token token = tokens_.next();
      if (token.type == Type::kEnd) {
        if (end_tags.size() > 0) {
          tokens_.fail_here("unexpected end of template, '" + std::string(*end_tags.begin()) +
                            "' is missing");
        }
        break;
      }
      if (token.type == Type::kData) {
        block.push_back(make(Kind::kData, token.line));
        block.back().text = markup(token.text);
      } else if (token.type == Type::kVariableBegin) {
        block.push_back(make(Kind::kOutput, token.line));
        block.back().expression = tokens_.parse_tuple();
        expect(Type::kVariableEnd, "'}}'");
      } else if (is_end_tag(end_tags)) {
        break;
      } else {
        block.push_back(parse_statement());
      }
    }
    --depth_;
    return block;
  }

  bool is_end_tag(std::initializer_list<std::string_view> end_tags) {
    for (const std::string_view tag : end_tags) {
      if (!tokens_.skip_name(tag)) continue;
      ended_by_ = tag;
      return true;
    }
    return false;
  }

  static Statement make(Kind kind, int line) {
    Statement statement;
    statement.kind = kind;
    statement.line = line;
    return statement;
  }

  void expect(Type type, const char* what) {
    if (!tokens_.is(type)) tokens_.fail_here(std::string("expected ") + what);
    tokens_.next();
  }
  void expect_tag_end() { expect(Type::kBlockEnd, "'%}'"); }

  // The block between this tag's end and the closing tag, both consumed.
  Block parse_body(std::string_view end_tag) {
    expect_tag_end();
    Block body = parse_block({end_tag});
    expect_tag_end();
    return body;
  }

  Statement parse_statement() {
    const int line = tokens_.peek().line;
    const std::string tag = tokens_.expect_any_name();
    if (tag == "if") return parse_if(line);
    if (tag == "for") return parse_for(line);
    if (tag == "set") return parse_set(line);
    if (tag == "macro") return parse_macro(line);
    if (tag == "call") return parse_call(line);
    if (tag == "with") return parse_with(line);
    if (tag == "filter") {
      Statement node = make(Kind::kFilterBlock, line);
      node.expression = tokens_.parse_block_filters(/*with_bar=*/false);
      node.body = parse_body("endfilter");
      return node;
    }
    if (tag == "generation") {  // marks the assistant's part for training; no effect here
      Statement node = make(Kind::kGroup, line);
      node.body = parse_body("endgeneration");
      return node;
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) tokens_.fail_here("'" + tag + "' outside a loop");
      expect_tag_end();
      return make(tag == "break" ? Kind::kBreak : Kind::kContinue, line);
    }
    if (tag == "else" || tag == "elif" || tag.starts_with("end")) {
      tokens_.fail_here("unexpected tag '" + tag + "'");
    }
    tokens_.unsupported("tag '" + tag + "'", line);
  }

  Statement parse_if(int line) {
    Statement node = make(Kind::kIf, line);
    do {
      Statement::Branch branch;
      branch.condition = tokens_.parse_tuple();
      expect_tag_end();
      branch.body = parse_block({"endif", "elif", "else"});
      node.branches.push_back(std::move(branch));
    } while (ended_by_ == "elif");
    if (ended_by_ == "else") {
      expect_tag_end();
      node.alternative = parse_block({"endif"});
    }
    expect_tag_end();
    return node;
  }

  Statement parse_for(int line) {
    Statement node = make(Kind::kFor, line);
    node.target = parse_target(/*with_attribute=*/false);
    tokens_.expect_name("in");
    node.expression = tokens_.parse_tuple(/*allow_condition=*/false);
    if (tokens_.skip_name("if")) node.condition = tokens_.parse_expression();
    if (tokens_.is_name("recursive")) tokens_.unsupported("recursive loop", line);
    expect_tag_end();
    ++loops_;
    node.body = parse_block({"endfor", "else"});
    --loops_;
    if (ended_by_ == "else") {
      expect_tag_end();
      node.alternative = parse_block({"endfor"});
    }
    expect_tag_end();
    return node;
  }

  Statement parse_set(int line) {
    Statement node = make(Kind::kSet, line);
    node.target = parse_target(/*with_attribute=*/true);
    if (tokens_.skip_operator("=")) {
      node.expression = tokens_.parse_tuple();
      expect_tag_end();
      return node;
    }
    node.kind = Kind::kSetBlock;
    node.expression = tokens_.parse_block_filters(/*with_bar=*/true);
    node.body = parse_body("endset");
    return node;
  }

  Target parse_target(bool with_attribute) {
    Target target;
    const bool parenthesised = tokens_.skip_operator("(");
    target.names.push_back(tokens_.expect_any_name());
    if (with_attribute && tokens_.skip_operator(".")) {
      target.attribute = tokens_.expect_any_name();
      return target;
    }
    while (tokens_.skip_operator(",")) {
      target.unpacks = true;
      if (tokens_.is_operator("(")) {
        tokens_.unsupported("nested assignment target", tokens_.peek().line);
      }
      target.names.push_back(tokens_.expect_any_name());
    }
    if (parenthesised) tokens_.expect_operator(")");
    return target;
  }

  std::vector<Statement::Parameter> parse_parameters() {
    std::vector<Statement::Parameter> parameters;
    tokens_.expect_operator("(");
    while (!tokens_.is_operator(")")) {
      if (!parameters.empty()) tokens_.expect_operator(",");
      Statement::Parameter parameter;
      parameter.name = tokens_.expect_any_name();
      if (tokens_.skip_operator("=")) {
        parameter.fallback = tokens_.parse_expression();
      } else if (!parameters.empty() && parameters.back().fallback != nullptr) {
        tokens_.fail_here("a parameter without default follows one with default");
      }
      parameters.push_back(std::move(parameter));
    }
    tokens_.expect_operator(")");
    return parameters;
  }

  Statement parse_macro(int line) {
    Statement node = make(Kind::kMacro, line);
    node.name = tokens_.expect_any_name();
    node.parameters = parse_parameters();
    const int outer_loops = std::exchange(loops_, 0);
    node.body = parse_body("endmacro");
    loops_ = outer_loops;
    return node;
  }

  Statement parse_call(int line) {
    Statement node = make(Kind::kCallBlock, line);
    if (tokens_.is_operator("(")) node.parameters = parse_parameters();
    node.expression = tokens_.parse_expression();
    if (node.expression->kind != Expression::Kind::kCall) tokens_.fail_here("expected a call");
    const int outer_loops = std::exchange(loops_, 0);
    node.body = parse_body("endcall");
    loops_ = outer_loops;
    return node;
  }

  Statement parse_with(int line) {
    Statement node = make(Kind::kWith, line);
    while (!tokens_.is(Type::kBlockEnd)) {
      if (!node.with_targets.empty()) tokens_.expect_operator(",");
      Target target;
      target.names.push_back(tokens_.expect_any_name());
      node.with_targets.push_back(std::move(target));
      tokens_.expect_operator("=");
      node.with_values.push_back(tokens_.parse_expression());
    }
    node.body = parse_body("endwith");
    return node;
  }

  ExpressionParser tokens_;
  std::string ended_by_;
  int depth_ = 0;
  int loops_ = 0;  // loops around the current position, within the current macro
};

}  // namespace

Block parse(std::string_view source) {
  return StatementParser(tokenize(source)).parse_template();
}

}  // namespace tandem::chat_template
