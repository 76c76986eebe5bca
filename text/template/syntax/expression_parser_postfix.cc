// Parses the parts after an operand: attributes, subscripts, calls, filters, tests.
#include <utility>

#include "text/template/syntax/expression_parser.h"

namespace ballast::text::jinja {

ExpressionPtr ExpressionParser::with_postfixes(ExpressionPtr operand) {
  while (true) {
    if (tokens_.is_operator(".")) {
      operand = attribute(std::move(operand));
    } else if (tokens_.is_operator("[")) {
      operand = subscript(std::move(operand));
    } else if (tokens_.is_operator("(")) {
      operand = call(std::move(operand));
    } else {
      return operand;
    }
  }
}

ExpressionPtr ExpressionParser::with_filters_and_tests(ExpressionPtr operand) {
  while (true) {
    if (tokens_.is_operator("|")) {
      operand = filter(std::move(operand));
    } else if (tokens_.is_name("is")) {
      operand = test(std::move(operand));
    } else if (tokens_.is_operator("(")) {
      operand = call(std::move(operand));
    } else {
      return operand;
    }
  }
}

ExpressionPtr ExpressionParser::attribute(ExpressionPtr operand) {
  tokens_.expect_operator(".");
  if (tokens_.is(Token::Kind::kInteger)) {
    Expression index = begin(Kind::kLiteral);
    index.value = Value(tokens_.next().integer);
    return finish(Kind::kItem, std::move(operand), finish(std::move(index)));
  }
  std::string name = tokens_.expect(Token::Kind::kName, "an attribute").name;
  return finish(Kind::kAttribute, std::move(operand), nullptr, std::move(name));
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr operand) {
  tokens_.expect_operator("[");
  Expression keys = begin(Kind::kTuple);
  while (!tokens_.is_operator("]")) {
    if (!keys.parts.empty()) tokens_.expect_operator(",");
    ExpressionPtr first = tokens_.is_operator(":") ? nullptr : expression();
    if (tokens_.is_operator(":")) {
      if (!keys.parts.empty()) tokens_.fail_here("a slice within a tuple is not supported");
      return slice(std::move(operand), std::move(first));
    }
    keys.parts.push_back(std::move(first));
  }
  tokens_.expect_operator("]");
  ExpressionPtr key = keys.parts.size() == 1 ? std::move(keys.parts.front()) : finish(std::move(keys));
  return finish(Kind::kItem, std::move(operand), std::move(key));
}

ExpressionPtr ExpressionParser::slice(ExpressionPtr operand, ExpressionPtr first) {
  Expression whole = begin(Kind::kSlice);
  whole.parts.push_back(std::move(operand));
  whole.parts.push_back(std::move(first));
  for (int i = 0; i < 2; ++i) {
    const bool has_more = tokens_.skip_operator(":");
    const bool has_value = has_more && !tokens_.is_operator(":") && !tokens_.is_operator("]");
    whole.parts.push_back(has_value ? expression() : nullptr);
  }
  tokens_.expect_operator("]");
  return finish(std::move(whole));
}

ExpressionPtr ExpressionParser::call(ExpressionPtr operand) {
  Expression whole{.kind = Kind::kCall, .line = operand->line};
  whole.parts.push_back(std::move(operand));
  whole.call = call_arguments();
  return finish(std::move(whole));
}

CallSyntax ExpressionParser::call_arguments() {
  CallSyntax call;
  tokens_.expect_operator("(");
  bool is_first = true;
  while (!tokens_.is_operator(")")) {
    if (!is_first) tokens_.expect_operator(",");
    if (tokens_.is_operator(")")) break;
    is_first = false;
    argument(call);
  }
  tokens_.expect_operator(")");
  return call;
}

void ExpressionParser::argument(CallSyntax& call) {
  const auto require = [&](bool in_order) {
    if (!in_order) tokens_.fail_here("arguments are in a wrong order");
  };
  if (tokens_.skip_operator("*")) {
    require(call.more_positional == nullptr && call.more_named == nullptr);
    call.more_positional = expression();
  } else if (tokens_.skip_operator("**")) {
    require(call.more_named == nullptr);
    call.more_named = expression();
  } else if (tokens_.is(Token::Kind::kName) && tokens_.following().kind == Token::Kind::kOperator &&
             tokens_.following().name == "=") {
    require(call.more_named == nullptr);
    std::string name = tokens_.next().name;
    tokens_.next();
    for (const auto& [other, value] : call.named) require(other != name);
    if (call.named.size() == kMostArguments) tokens_.fail_here("a call has too many arguments");
    call.named.emplace_back(std::move(name), expression());
  } else {
    require(call.more_positional == nullptr && call.more_named == nullptr && call.named.empty());
    call.positional.push_back(expression());
  }
}

std::string ExpressionParser::dotted_name(std::string_view what) {
  std::string name = tokens_.expect(Token::Kind::kName, what).name;
  while (tokens_.skip_operator(".")) name += "." + tokens_.expect(Token::Kind::kName, what).name;
  return name;
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr operand) {
  tokens_.expect_operator("|");
  Expression whole = begin(Kind::kFilter);
  whole.name = dotted_name("the name of a filter");
  if (operand != nullptr) whole.parts.push_back(std::move(operand));
  if (tokens_.is_operator("(")) whole.call = call_arguments();
  return finish(std::move(whole));
}

ExpressionPtr ExpressionParser::filter_chain(bool begins_with_name) {
  ExpressionPtr chain;
  if (begins_with_name) {
    Expression whole = begin(Kind::kFilter);
    whole.name = dotted_name("the name of a filter");
    if (tokens_.is_operator("(")) whole.call = call_arguments();
    chain = finish(std::move(whole));
  }
  while (tokens_.is_operator("|")) chain = filter(std::move(chain));
  return chain;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr operand) {
  tokens_.expect_name("is");
  const bool is_negated = tokens_.skip_name("not");
  Expression whole = begin(Kind::kTest);
  whole.name = dotted_name("the name of a test");
  whole.parts.push_back(std::move(operand));
  if (tokens_.is_operator("(")) {
    whole.call = call_arguments();
  } else if ((tokens_.is(Token::Kind::kName) && !tokens_.is_name_of({"else", "or", "and"})) ||
             tokens_.is(Token::Kind::kString) || tokens_.is(Token::Kind::kInteger) || tokens_.is(Token::Kind::kFloat) ||
             tokens_.is_operator("[") || tokens_.is_operator("{")) {
    if (tokens_.is_name("is")) tokens_.fail_here("tests with \"is\" cannot follow each other");
    whole.call.positional.push_back(with_postfixes(primary()));
  }
  ExpressionPtr result = finish(std::move(whole));
  return is_negated ? finish(Kind::kNot, std::move(result)) : std::move(result);
}

}  // namespace ballast::text::jinja
