#include "text/template/syntax/token_stream.h"

#include <algorithm>

#include "files/text.h"
#include "text/template/values/value.h"

namespace ballast::text::jinja {
namespace {

std::string describe(const Token& token) {
  switch (token.kind) {
    case Token::Kind::kName:
    case Token::Kind::kOperator:
      return files::in_quotes(token.name);
    case Token::Kind::kBlockBegin:
      return "the beginning of a block";
    case Token::Kind::kBlockEnd:
      return "the end of a block";
    case Token::Kind::kVariableBegin:
      return "{{";
    case Token::Kind::kVariableEnd:
      return "}}";
    case Token::Kind::kEnd:
      return "the template's end";
    default:
      return "a literal";
  }
}

}  // namespace

bool TokenStream::is_name_of(std::initializer_list<std::string_view> names) const {
  return is(Token::Kind::kName) && std::ranges::find(names, current().name) != names.end();
}

Token TokenStream::next() {
  Token token = current();
  if (token.kind != Token::Kind::kEnd) ++at_;
  return token;
}

bool TokenStream::skip_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  next();
  return true;
}

bool TokenStream::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  next();
  return true;
}

Token TokenStream::expect(Token::Kind kind, std::string_view what) {
  if (!is(kind)) fail_here("expected " + std::string(what) + ", found " + describe(current()));
  return next();
}

void TokenStream::expect_operator(std::string_view text) {
  if (!skip_operator(text)) fail_here("expected " + files::in_quotes(text) + ", found " + describe(current()));
}

void TokenStream::expect_name(std::string_view name) {
  if (!skip_name(name)) fail_here("expected " + files::in_quotes(name) + ", found " + describe(current()));
}

void TokenStream::fail_here(const std::string& problem) const {
  fail("line " + std::to_string(line()) + ": " + problem);
}

}  // namespace ballast::text::jinja
