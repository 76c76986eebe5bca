#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "files/text.h"
#include "text/template/syntax/expression_parser.h"
#include "text/template/syntax/syntax_tree.h"
#include "text/template/syntax/token_stream.h"

namespace ballast::text::jinja {
namespace {

class StatementParser {
 public:
  explicit StatementParser(std::string_view source) : tokens_(tokenize(source)), expressions_(tokens_) {}

  Body run() { return body({}); }

 private:
  using Kind = Statement::Kind;

  // Parses statements up to a tag that begins with one of `ends`, which becomes the current token; or to the template's
  // end.
  Body body(std::initializer_list<std::string_view> ends) {
    const SyntaxLevel level(tokens_, depth_);
    Body statements;
    while (!tokens_.is(Token::Kind::kEnd)) {
      if (tokens_.is(Token::Kind::kData)) {
        Statement data = begin(Kind::kText);
        data.text = tokens_.next().text;
        statements.push_back(finish(std::move(data)));
      } else if (tokens_.is(Token::Kind::kVariableBegin)) {
        tokens_.next();
        Statement print = begin(Kind::kPrint);
        print.expressions.push_back(expressions_.tuple());
        tokens_.expect(Token::Kind::kVariableEnd, "}}");
        statements.push_back(finish(std::move(print)));
      } else {
        tokens_.next();
        if (tokens_.is_name_of(ends)) return statements;
        statements.push_back(statement());
        tokens_.expect(Token::Kind::kBlockEnd, "the end of the block");
      }
    }
    if (ends.size() != 0) tokens_.fail_here("the template ends before " + std::string(*ends.begin()));
    return statements;
  }

  // Parses a body after the end of its opening tag.
  Body inner(std::initializer_list<std::string_view> ends) {
    tokens_.skip_operator(":");
    tokens_.expect(Token::Kind::kBlockEnd, "the end of the block");
    return body(ends);
  }

  Body inner_until(std::string_view end) {
    Body statements = inner({end});
    tokens_.next();
    return statements;
  }

  Body body_of(Signature& signature, std::string_view end) {
    expressions_.open_signatures().push_back(&signature);
    const int outer_loops = std::exchange(loops_, 0);
    Body statements = inner_until(end);
    loops_ = outer_loops;
    expressions_.open_signatures().pop_back();
    return statements;
  }

  StatementPtr statement() {
    if (!tokens_.is(Token::Kind::kName)) tokens_.expect(Token::Kind::kName, "a tag's name");
    const std::string& name = tokens_.current().name;
    if (name == "set") return set();
    if (name == "for") return loop();
    if (name == "if") return condition();
    if (name == "with") return with();
    if (name == "macro") return macro();
    if (name == "call") return call();
    if (name == "filter") return filter();
    if (name == "print") return print();
    if (name == "generation") return generation();
    if (name == "break") return jump(Kind::kBreak);
    if (name == "continue") return jump(Kind::kContinue);
    for (const std::string_view known : {"block", "extends", "include", "import", "from", "autoescape"}) {
      if (name == known) tokens_.fail_here("the tag " + name + " is not supported, since a chat template is alone");
    }
    tokens_.fail_here("there is no tag " + files::in_quotes(name) + " here");
  }

  StatementPtr set() {
    Statement set = begin(Kind::kSet);
    tokens_.next();
    set.target = expressions_.target(true);
    if (tokens_.skip_operator("=")) {
      set.expressions.push_back(expressions_.tuple());
      return finish(std::move(set));
    }
    set.kind = Kind::kSetBlock;
    set.filters = expressions_.filter_chain(false);
    set.bodies.push_back(inner_until("endset"));
    return finish(std::move(set));
  }

  StatementPtr loop() {
    Statement loop = begin(Kind::kFor);
    tokens_.next();
    loop.target = expressions_.target(false, "in");
    tokens_.expect_name("in");
    loop.expressions.push_back(expressions_.tuple(false, "recursive"));
    if (tokens_.skip_name("if")) loop.condition = expressions_.expression();
    loop.is_recursive = tokens_.skip_name("recursive");
    ++loops_;
    loop.bodies.push_back(inner({"endfor", "else"}));
    --loops_;
    if (tokens_.next().name == "else") {
      loop.bodies.push_back(inner_until("endfor"));
    } else {
      loop.bodies.emplace_back();
    }
    return finish(std::move(loop));
  }

  StatementPtr condition() {
    Statement condition = begin(Kind::kIf);
    while (true) {
      tokens_.next();
      condition.expressions.push_back(expressions_.tuple(false));
      condition.bodies.push_back(inner({"elif", "else", "endif"}));
      if (tokens_.is_name("elif")) continue;
      if (tokens_.next().name == "else") condition.bodies.push_back(inner_until("endif"));
      return finish(std::move(condition));
    }
  }

  StatementPtr with() {
    Statement with = begin(Kind::kWith);
    tokens_.next();
    while (!tokens_.is(Token::Kind::kBlockEnd)) {
      if (!with.targets.empty()) tokens_.expect_operator(",");
      with.targets.push_back(expressions_.target(false));
      tokens_.expect_operator("=");
      with.expressions.push_back(expressions_.expression());
    }
    with.bodies.push_back(inner_until("endwith"));
    return finish(std::move(with));
  }

  void parameters(Signature& signature) {
    tokens_.expect_operator("(");
    while (!tokens_.is_operator(")")) {
      if (!signature.parameters.empty()) tokens_.expect_operator(",");
      std::string name = expressions_.target_name();
      if (std::ranges::find(signature.parameters, name) != signature.parameters.end()) {
        tokens_.fail_here("a parameter is there twice");
      }
      if (signature.parameters.size() == kMostArguments) tokens_.fail_here("a macro has too many parameters");
      signature.parameters.push_back(std::move(name));
      if (tokens_.skip_operator("=")) {
        signature.defaults.push_back(expressions_.expression());
      } else if (!signature.defaults.empty()) {
        tokens_.fail_here("a parameter without a default comes after one with a default");
      }
    }
    tokens_.expect_operator(")");
  }

  StatementPtr macro() {
    Statement macro = begin(Kind::kMacro);
    tokens_.next();
    macro.signature.name = expressions_.target_name();
    parameters(macro.signature);
    macro.bodies.push_back(body_of(macro.signature, "endmacro"));
    return finish(std::move(macro));
  }

  StatementPtr call() {
    Statement call = begin(Kind::kCall);
    tokens_.next();
    call.signature.name = "caller";
    if (tokens_.is_operator("(")) parameters(call.signature);
    call.expressions.push_back(expressions_.expression());
    if (call.expressions[0]->kind != Expression::Kind::kCall) tokens_.fail_here("expected a call");
    call.bodies.push_back(body_of(call.signature, "endcall"));
    return finish(std::move(call));
  }

  StatementPtr filter() {
    Statement filter = begin(Kind::kFilter);
    tokens_.next();
    filter.filters = expressions_.filter_chain(true);
    filter.bodies.push_back(inner_until("endfilter"));
    return finish(std::move(filter));
  }

  StatementPtr print() {
    Statement print = begin(Kind::kPrint);
    tokens_.next();
    while (!tokens_.is(Token::Kind::kBlockEnd)) {
      if (!print.expressions.empty()) tokens_.expect_operator(",");
      print.expressions.push_back(expressions_.expression());
    }
    return finish(std::move(print));
  }

  StatementPtr generation() {
    Statement generation = begin(Kind::kGeneration);
    tokens_.next();
    Signature nothing;
    generation.bodies.push_back(body_of(nothing, "endgeneration"));
    return finish(std::move(generation));
  }

  StatementPtr jump(Kind kind) {
    Statement jump = begin(kind);
    tokens_.next();
    if (loops_ == 0) tokens_.fail_here("there is no loop to leave");
    return finish(std::move(jump));
  }

  Statement begin(Kind kind) const { return {.kind = kind, .line = tokens_.line()}; }
  static StatementPtr finish(Statement statement) { return std::make_unique<const Statement>(std::move(statement)); }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int depth_ = 0;
  int loops_ = 0;  // enclosing loops within the same macro
};

}  // namespace

Body parse_template(std::string_view source) {
  return StatementParser(source).run();
}

}  // namespace ballast::text::jinja
