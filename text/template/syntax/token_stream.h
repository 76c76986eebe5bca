// The tokens of a template, one after the other.
#ifndef BALLAST_TEXT_TEMPLATE_SYNTAX_TOKEN_STREAM_H_
#define BALLAST_TEXT_TEMPLATE_SYNTAX_TOKEN_STREAM_H_

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/syntax/lexer.h"

namespace ballast::text::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& following() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  int line() const { return current().line; }

  bool is(Token::Kind kind) const { return current().kind == kind; }
  bool is_operator(std::string_view text) const { return is(Token::Kind::kOperator) && current().name == text; }
  bool is_name(std::string_view name) const { return is(Token::Kind::kName) && current().name == name; }
  bool is_name_of(std::initializer_list<std::string_view> names) const;

  Token next();  ///< at the end, returns the end again
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view name);
  Token expect(Token::Kind kind, std::string_view what);
  void expect_operator(std::string_view text);
  void expect_name(std::string_view name);

  [[noreturn]] void fail_here(const std::string& problem) const;  ///< names the line

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

/// The limit of nested expressions and blocks in a template's text.
inline constexpr int kMostSyntaxDepth = 200;

/// The limit of a macro's parameters, and of a call's named arguments.
inline constexpr std::size_t kMostArguments = 255;

/// Increases the parser's nesting depth during its lifetime.
class SyntaxLevel {
 public:
  SyntaxLevel(const TokenStream& tokens, int& depth) : depth_(depth) {
    if (depth_ >= kMostSyntaxDepth / 2) tokens.fail_here("nests too deeply");
    ++depth_;
  }
  ~SyntaxLevel() { --depth_; }
  SyntaxLevel(const SyntaxLevel&) = delete;
  SyntaxLevel& operator=(const SyntaxLevel&) = delete;

 private:
  int& depth_;
};

}  // namespace ballast::text::jinja

#endif  // BALLAST_TEXT_TEMPLATE_SYNTAX_TOKEN_STREAM_H_
