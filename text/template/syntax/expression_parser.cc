#include "text/template/syntax/expression_parser.h"

#include <algorithm>
#include <utility>

namespace ballast::text::jinja {
ExpressionPtr ExpressionParser::finish(Expression expression) const {
  int below = 0;
  const auto see = [&](const ExpressionPtr& part) {
    if (part != nullptr) below = std::max(below, part->depth);
  };
  std::ranges::for_each(expression.parts, see);
  std::ranges::for_each(expression.call.positional, see);
  for (const auto& [name, value] : expression.call.named) see(value);
  see(expression.call.more_positional);
  see(expression.call.more_named);
  expression.depth = below + 1;
  if (expression.depth > kMostSyntaxDepth) tokens_.fail_here("nests too deeply");
  return std::make_unique<const Expression>(std::move(expression));
}

ExpressionPtr ExpressionParser::finish(Kind kind, ExpressionPtr left, ExpressionPtr right, std::string name) const {
  Expression expression{.kind = kind, .line = left->line, .name = std::move(name)};
  expression.parts.push_back(std::move(left));
  if (right != nullptr) expression.parts.push_back(std::move(right));
  return finish(std::move(expression));
}

ExpressionPtr ExpressionParser::expression() {
  const SyntaxLevel level(tokens_, depth_);
  ExpressionPtr value = either();
  while (tokens_.skip_name("if")) {
    Expression condition = begin(Kind::kCondition);
    condition.parts.push_back(either());
    condition.parts.push_back(std::move(value));
    condition.parts.push_back(tokens_.skip_name("else") ? expression() : nullptr);
    value = finish(std::move(condition));
  }
  return value;
}

ExpressionPtr ExpressionParser::either() {
  ExpressionPtr left = both();
  while (tokens_.skip_name("or")) {
    ExpressionPtr right = both();
    left = finish(Kind::kOr, std::move(left), std::move(right));
  }
  return left;
}

ExpressionPtr ExpressionParser::both() {
  ExpressionPtr left = negation();
  while (tokens_.skip_name("and")) {
    ExpressionPtr right = negation();
    left = finish(Kind::kAnd, std::move(left), std::move(right));
  }
  return left;
}

ExpressionPtr ExpressionParser::negation() {
  const SyntaxLevel level(tokens_, depth_);
  if (tokens_.skip_name("not")) return finish(Kind::kNot, negation());
  return comparison();
}

ExpressionPtr ExpressionParser::comparison() {
  Expression comparison = begin(Kind::kCompare);
  comparison.parts.push_back(sum());
  while (true) {
    const Token& token = tokens_.current();
    if (token.kind == Token::Kind::kOperator && (token.name == "==" || token.name == "!=" || token.name == "<" ||
                                                 token.name == "<=" || token.name == ">" || token.name == ">=")) {
      comparison.operators.push_back(tokens_.next().name);
    } else if (tokens_.skip_name("in")) {
      comparison.operators.emplace_back("in");
    } else if (tokens_.is_name("not") && tokens_.following().kind == Token::Kind::kName &&
               tokens_.following().name == "in") {
      tokens_.next();
      tokens_.next();
      comparison.operators.emplace_back("not in");
    } else {
      break;
    }
    comparison.parts.push_back(sum());
  }
  if (comparison.operators.empty()) return std::move(comparison.parts.front());
  return finish(std::move(comparison));
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr left = concatenation();
  while (tokens_.is_operator("+") || tokens_.is_operator("-")) {
    std::string name = tokens_.next().name;
    ExpressionPtr right = concatenation();
    left = finish(Kind::kArithmetic, std::move(left), std::move(right), std::move(name));
  }
  return left;
}

ExpressionPtr ExpressionParser::concatenation() {
  Expression whole = begin(Kind::kConcatenate);
  whole.parts.push_back(product());
  while (tokens_.skip_operator("~")) whole.parts.push_back(product());
  if (whole.parts.size() == 1) return std::move(whole.parts.front());
  return finish(std::move(whole));
}

ExpressionPtr ExpressionParser::product() {
  ExpressionPtr left = power();
  while (tokens_.is_operator("*") || tokens_.is_operator("/") || tokens_.is_operator("//") ||
         tokens_.is_operator("%")) {
    std::string name = tokens_.next().name;
    ExpressionPtr right = power();
    left = finish(Kind::kArithmetic, std::move(left), std::move(right), std::move(name));
  }
  return left;
}

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr left = unary();
  while (tokens_.skip_operator("**")) {
    ExpressionPtr right = unary();
    left = finish(Kind::kArithmetic, std::move(left), std::move(right), "**");
  }
  return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  const SyntaxLevel level(tokens_, depth_);
  ExpressionPtr operand;
  if (tokens_.skip_operator("-")) {
    operand = finish(Kind::kNegative, unary(false));
  } else if (tokens_.skip_operator("+")) {
    operand = finish(Kind::kPositive, unary(false));
  } else {
    operand = primary();
  }
  operand = with_postfixes(std::move(operand));
  return with_filters ? with_filters_and_tests(std::move(operand)) : std::move(operand);
}

ExpressionPtr ExpressionParser::primary() {
  Expression literal = begin(Kind::kLiteral);
  switch (tokens_.current().kind) {
    case Token::Kind::kName:
      return name_or_constant();
    case Token::Kind::kString:
      return string();
    case Token::Kind::kInteger:
      literal.value = Value(tokens_.next().integer);
      return finish(std::move(literal));
    case Token::Kind::kFloat:
      literal.value = Value(tokens_.next().number);
      return finish(std::move(literal));
    default:
      break;
  }
  if (tokens_.is_operator("[")) return list();
  if (tokens_.is_operator("{")) return dict();
  if (!tokens_.skip_operator("(")) tokens_.expect(Token::Kind::kName, "an expression");
  ExpressionPtr inner;
  if (tokens_.is_operator(")")) {
    inner = finish(begin(Kind::kTuple));
  } else {
    inner = tuple();
  }
  tokens_.expect_operator(")");
  return inner;
}

ExpressionPtr ExpressionParser::name_or_constant() {
  Expression expression = begin(Kind::kName);
  expression.name = tokens_.next().name;
  if (expression.name == "true" || expression.name == "True" || expression.name == "false" ||
      expression.name == "False") {
    expression.kind = Kind::kLiteral;
    expression.value = Value(expression.name == "true" || expression.name == "True");
  } else if (expression.name == "none" || expression.name == "None") {
    expression.kind = Kind::kLiteral;
  } else {
    mention(expression.name);
  }
  return finish(std::move(expression));
}

void ExpressionParser::mention(const std::string& name) {
  for (Signature* signature : open_signatures_) {
    if (name == "varargs") signature->takes_more_positional = true;
    if (name == "kwargs") signature->takes_more_named = true;
    if (name == "caller") signature->takes_caller = true;
  }
}

ExpressionPtr ExpressionParser::string() {
  Expression literal = begin(Kind::kLiteral);
  Text text;
  while (tokens_.is(Token::Kind::kString)) text += tokens_.next().text;
  literal.value = Value(std::move(text));
  return finish(std::move(literal));
}

ExpressionPtr ExpressionParser::list() {
  Expression expression = begin(Kind::kList);
  tokens_.expect_operator("[");
  while (!tokens_.is_operator("]")) {
    if (!expression.parts.empty()) tokens_.expect_operator(",");
    if (tokens_.is_operator("]")) break;
    expression.parts.push_back(this->expression());
  }
  tokens_.expect_operator("]");
  return finish(std::move(expression));
}

ExpressionPtr ExpressionParser::dict() {
  Expression expression = begin(Kind::kDict);
  tokens_.expect_operator("{");
  while (!tokens_.is_operator("}")) {
    if (!expression.parts.empty()) tokens_.expect_operator(",");
    if (tokens_.is_operator("}")) break;
    expression.parts.push_back(this->expression());
    tokens_.expect_operator(":");
    expression.parts.push_back(this->expression());
  }
  tokens_.expect_operator("}");
  return finish(std::move(expression));
}

bool ExpressionParser::tuple_ends(std::string_view end) const {
  if (tokens_.is(Token::Kind::kVariableEnd) || tokens_.is(Token::Kind::kBlockEnd) || tokens_.is_operator(")")) {
    return true;
  }
  return !end.empty() && tokens_.is_name(end);
}

ExpressionPtr ExpressionParser::tuple(bool with_condition, std::string_view end) {
  const SyntaxLevel level(tokens_, depth_);
  Expression whole = begin(Kind::kTuple);
  bool has_comma = false;
  while (true) {
    if (tuple_ends(end)) break;
    whole.parts.push_back(with_condition ? expression() : either());
    if (!tokens_.skip_operator(",")) break;
    has_comma = true;
  }
  if (whole.parts.empty()) tokens_.fail_here("an expression is missing");
  if (!has_comma) return std::move(whole.parts.front());
  return finish(std::move(whole));
}

std::string ExpressionParser::target_name() {
  std::string name = tokens_.expect(Token::Kind::kName, "a name").name;
  for (const std::string_view constant : {"true", "True", "false", "False", "none", "None"}) {
    if (name == constant) tokens_.fail_here("cannot assign to " + name);
  }
  return name;
}

ExpressionPtr ExpressionParser::target(bool with_namespace, std::string_view end) {
  const SyntaxLevel level(tokens_, depth_);
  Expression whole = begin(Kind::kTuple);
  bool has_comma = false;
  while (!tuple_ends(end) && !tokens_.is_operator("=")) {
    if (tokens_.skip_operator("(")) {
      whole.parts.push_back(target(false));
      tokens_.expect_operator(")");
    } else {
      Expression one = begin(Kind::kName);
      one.name = target_name();
      if (with_namespace && tokens_.skip_operator(".")) {
        one.kind = Kind::kNamespaceAttribute;
        one.attribute = tokens_.expect(Token::Kind::kName, "an attribute").name;
      }
      whole.parts.push_back(finish(std::move(one)));
    }
    if (!tokens_.skip_operator(",")) break;
    has_comma = true;
  }
  if (whole.parts.empty()) tokens_.fail_here("a name to assign to is missing");
  if (!has_comma) return std::move(whole.parts.front());
  return finish(std::move(whole));
}

}  // namespace ballast::text::jinja
