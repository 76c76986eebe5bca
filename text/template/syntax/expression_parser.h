// Parses expressions by Jinja's grammar (in which, unlike in Python, a filter binds closer than a sign).
#ifndef BALLAST_TEXT_TEMPLATE_SYNTAX_EXPRESSION_PARSER_H_
#define BALLAST_TEXT_TEMPLATE_SYNTAX_EXPRESSION_PARSER_H_

#include <string>
#include <vector>

#include "text/template/syntax/syntax_tree.h"
#include "text/template/syntax/token_stream.h"

namespace ballast::text::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ExpressionPtr expression();
  /// Parses one expression, or several with commas as a tuple; ends before the name `end`.
  ExpressionPtr tuple(bool with_condition = true, std::string_view end = {});
  /// Parses the target of `set` and `for`; for `set` also an attribute of a namespace.
  ExpressionPtr target(bool with_namespace, std::string_view end = {});
  std::string target_name();
  /// Parses the filters after {% filter and {% set x |; null if there are none.
  ExpressionPtr filter_chain(bool begins_with_name);

  /// The signatures of the macros whose bodies are being parsed, which record the names they use.
  std::vector<Signature*>& open_signatures() { return open_signatures_; }

 private:
  using Kind = Expression::Kind;

  ExpressionPtr either();
  ExpressionPtr both();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters = true);
  ExpressionPtr primary();
  ExpressionPtr name_or_constant();
  ExpressionPtr string();
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr with_postfixes(ExpressionPtr operand);
  ExpressionPtr with_filters_and_tests(ExpressionPtr operand);
  ExpressionPtr attribute(ExpressionPtr operand);
  ExpressionPtr subscript(ExpressionPtr operand);
  ExpressionPtr slice(ExpressionPtr operand, ExpressionPtr first);
  ExpressionPtr call(ExpressionPtr operand);
  ExpressionPtr filter(ExpressionPtr operand);
  ExpressionPtr test(ExpressionPtr operand);
  CallSyntax call_arguments();
  void argument(CallSyntax& call);
  std::string dotted_name(std::string_view what);
  bool tuple_ends(std::string_view end) const;
  void mention(const std::string& name);

  Expression begin(Kind kind) const { return {.kind = kind, .line = tokens_.line()}; }
  ExpressionPtr finish(Expression expression) const;
  ExpressionPtr finish(Kind kind, ExpressionPtr left, ExpressionPtr right = nullptr, std::string name = {}) const;

  TokenStream& tokens_;
  std::vector<Signature*> open_signatures_;
  int depth_ = 0;
};

}  // namespace ballast::text::jinja

#endif  // BALLAST_TEXT_TEMPLATE_SYNTAX_EXPRESSION_PARSER_H_
