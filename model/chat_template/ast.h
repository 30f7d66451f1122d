#pragma once
// The parsed template: a tree of plain structs, immutable after parsing.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/chat_template/value.h"

namespace tandem::chat_template {

using Filter = Value (*)(Interpreter& interpreter, const Value& input, const Arguments& arguments);
using Test = bool (*)(Interpreter& interpreter, const Value& input, const Arguments& arguments);

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct Expression {
  enum class Kind {
    kConstant,     // constant
    kName,         // name
    kAttribute,    // operands[0] . name
    kItem,         // operands[0] [ operands[1] ]
    kSlice,        // operands[0] [ operands[1..3] ]; a bound may be null
    kCall,         // operands[0] ( operands[1…], named )
    kFilter,       // filter(operands[0], operands[1…], named)
    kTest,         // test(operands[0], operands[1…], named)
    kUnary,        // name: "-", "+" or "not"
    kBinary,       // name: an arithmetic operator
    kCompare,      // operands[0] names[0] operands[1] names[1] …
    kAnd,
    kOr,
    kConcat,       // all operands as text
    kConditional,  // operands[0] if operands[1] else operands[2] (may be null)
    kList,
    kTuple,
    kDict,         // keys and values in turn
    kBlockText,    // the text a filter block or a set block has produced
  };
  Kind kind = Kind::kConstant;
  int line = 0;
  Value constant;
  std::string name;
  std::vector<std::string> names;
  std::vector<ExpressionPtr> operands;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  Filter filter = nullptr;
  Test test = nullptr;
};

// Left of an assignment: a name, several names, or an attribute of a namespace.
struct Target {
  std::vector<std::string> names;
  bool unpacks = false;
  std::string attribute;  // of names[0]; empty: none
};

struct Statement;
using Block = std::vector<Statement>;

struct Statement {
  enum class Kind {
    kData,         // text
    kOutput,       // expression
    kIf,           // branches, alternative
    kFor,          // target, expression, condition (may be null), body, alternative
    kSet,          // target, expression
    kSetBlock,     // target, body, expression (a filter over kBlockText, may be null)
    kMacro,        // name, parameters, body
    kCallBlock,    // expression (kCall), parameters of the caller, body
    kFilterBlock,  // expression over kBlockText, body
    kWith,         // with_targets, with_values, body
    kGroup,        // body
    kBreak,
    kContinue,
  };
  struct Branch {
    ExpressionPtr condition;
    Block body;
  };
  struct Parameter {
    std::string name;
    ExpressionPtr fallback;  // may be null
  };
  Kind kind = Kind::kData;
  int line = 0;
  Text text;
  std::string name;
  Target target;
  ExpressionPtr expression;
  ExpressionPtr condition;
  std::vector<Branch> branches;
  std::vector<Parameter> parameters;
  std::vector<Target> with_targets;
  std::vector<ExpressionPtr> with_values;
  Block body;
  Block alternative;
};

}  // namespace tandem::chat_template
