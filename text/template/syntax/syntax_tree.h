// The syntax tree of a template.
#ifndef BALLAST_TEXT_TEMPLATE_SYNTAX_SYNTAX_TREE_H_
#define BALLAST_TEXT_TEMPLATE_SYNTAX_SYNTAX_TREE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/template/values/value.h"

namespace ballast::text::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct CallSyntax {
  std::vector<ExpressionPtr> positional{};
  std::vector<std::pair<std::string, ExpressionPtr>> named{};
  ExpressionPtr more_positional{};  ///< after *, or null
  ExpressionPtr more_named{};       ///< after **, or null
};

struct Expression {
  enum class Kind {
    kLiteral,             ///< value
    kName,                ///< name
    kNamespaceAttribute,  ///< a target only: name.attribute
    kList,                ///< parts
    kTuple,               ///< parts
    kDict,                ///< parts: key, value, key, value ...
    kAttribute,           ///< parts[0].name
    kItem,                ///< parts[0][parts[1]]
    kSlice,               ///< parts[0][parts[1]:parts[2]:parts[3]], of which the last three may be null
    kCall,                ///< parts[0](call)
    kFilter,              ///< parts[0] | name(call); parts is empty in a filter of a block
    kTest,                ///< parts[0] is name(call)
    kNot,                 ///< parts[0]
    kNegative,            ///< parts[0]
    kPositive,            ///< parts[0]
    kAnd,                 ///< parts[0], parts[1]
    kOr,                  ///< parts[0], parts[1]
    kArithmetic,          ///< parts[0] name parts[1]
    kCompare,             ///< parts[0] operators[0] parts[1] operators[1] parts[2] ...
    kConcatenate,         ///< parts
    kCondition,           ///< parts[1] if parts[0] else parts[2], which may be null
  };
  Kind kind;
  int line = 0;
  std::string name{};
  std::string attribute{};
  Value value{};
  std::vector<ExpressionPtr> parts{};
  std::vector<std::string> operators{};
  CallSyntax call{};
  int depth = 1;  ///< of the tree below, which the stack limits
};

struct Statement;
using StatementPtr = std::unique_ptr<const Statement>;
using Body = std::vector<StatementPtr>;

/// The signature of a macro or a call block.
struct Signature {
  std::string name{};
  std::vector<std::string> parameters{};
  std::vector<ExpressionPtr> defaults{};  ///< of the last parameters
  bool takes_more_positional = false;     ///< its body uses varargs
  bool takes_more_named = false;          ///< kwargs
  bool takes_caller = false;              ///< caller
};

struct Statement {
  enum class Kind {
    kText,        ///< text
    kPrint,       ///< expressions
    kSet,         ///< target, expressions[0]
    kSetBlock,    ///< target, bodies[0], filters
    kIf,          ///< expressions[i] guards bodies[i]; one more body is the else
    kFor,         ///< target, expressions[0], condition, bodies[0], bodies[1] is the else
    kWith,        ///< targets, expressions, bodies[0]
    kMacro,       ///< signature, bodies[0]
    kCall,        ///< signature, expressions[0] (a call), bodies[0]
    kFilter,      ///< filters, bodies[0]
    kGeneration,  ///< bodies[0]
    kBreak,
    kContinue,
  };
  Kind kind;
  int line = 0;
  Text text{};
  ExpressionPtr target{};
  std::vector<ExpressionPtr> targets{};
  std::vector<ExpressionPtr> expressions{};
  ExpressionPtr condition{};
  ExpressionPtr filters{};  ///< the last of a chain; null for none
  bool is_recursive = false;
  std::vector<Body> bodies{};
  Signature signature{};
};

/// Throws TemplateProblem that names the line.
Body parse_template(std::string_view source);

}  // namespace ballast::text::jinja

#endif  // BALLAST_TEXT_TEMPLATE_SYNTAX_SYNTAX_TREE_H_
