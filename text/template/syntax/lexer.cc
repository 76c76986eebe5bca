#include "text/template/syntax/lexer.h"

#include <algorithm>
#include <array>

#include "text/template/syntax/literals.h"
#include "text/template/values/value.h"
#include "text/unicode/characters.h"

namespace ballast::text::jinja {
namespace {

// Returns the source with uniform line ends, and without the last.
Text normalized_lines(std::string_view source) {
  const Text raw = make_text(source);
  Text text;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] == U'\r') {
      if (i + 1 < raw.size() && raw[i + 1] == U'\n') continue;
      text += U'\n';
    } else {
      text += raw[i];
    }
  }
  if (!text.empty() && text.back() == U'\n') text.pop_back();
  return text;
}

constexpr std::array<std::string_view, 27> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                         "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                         "=",  ">",  "<",  ".",  ":",  "|",  ",", ";", "!"};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(normalized_lines(source)), rest_(text_) {}

  std::vector<Token> run() {
    try {
      while (!rest_.empty()) between_tags();
      add(Token::Kind::kEnd);
      return std::move(tokens_);
    } catch (const TemplateProblem& problem) {
      fail("line " + std::to_string(line_) + ": " + problem.what());
    }
  }

 private:
  // Reads data up to the next tag, and the tag.
  void between_tags() {
    const std::size_t at = next_tag();
    const TextView data = rest_.substr(0, at);
    if (at == rest_.size()) {
      add_data(data);
      advance(at);
      return;
    }
    const char32_t kind = rest_[at + 1];
    const char32_t sign = at + 2 < rest_.size() ? rest_[at + 2] : U' ';
    add_data(before_tag(data, kind, sign));
    advance(at + 2 + (sign == U'-' || sign == U'+' ? 1 : 0));
    if (kind == U'#') {
      comment();
    } else if (kind == U'{') {
      tag(Token::Kind::kVariableBegin, Token::Kind::kVariableEnd, U"}}");
    } else if (begins_raw()) {
      raw();
    } else {
      tag(Token::Kind::kBlockBegin, Token::Kind::kBlockEnd, U"%}");
    }
  }

  std::size_t next_tag() const {
    for (std::size_t at = 0; at + 1 < rest_.size(); ++at) {
      if (rest_[at] != U'{') continue;
      const char32_t next = rest_[at + 1];
      if (next == U'{' || next == U'%' || next == U'#') return at;
    }
    return rest_.size();
  }

  TextView before_tag(TextView data, char32_t kind, char32_t sign) const {
    if (sign == U'-') return strip_text(data, Side::kRight);
    if (sign == U'+' || kind == U'{') return data;
    const std::size_t newline = data.rfind(U'\n');
    if (newline == TextView::npos && !line_starts_) return data;
    const std::size_t line = newline == TextView::npos ? 0 : newline + 1;
    return strip_text(data.substr(line), Side::kBoth).empty() ? data.substr(0, line) : data;
  }

  void comment() {
    const std::size_t end = rest_.find(U"#}");
    if (end == TextView::npos) fail("a comment has no end");
    const char32_t sign = end == 0 ? U' ' : rest_[end - 1];
    advance(end + 2);
    after_block(sign);
  }

  // Handles white space after the end of a block, a comment or raw text.
  void after_block(char32_t sign) {
    if (sign == U'-') {
      skip_space();
    } else if (sign != U'+' && rest_.starts_with(U'\n')) {
      advance(1);
    }
  }

  void skip_space() { advance(rest_.size() - strip_text(rest_, Side::kLeft).size()); }

  // Returns whether the block that begins here is {% raw %}, and skips it.
  bool begins_raw() {
    TextView after = strip_text(rest_, Side::kLeft);
    if (!after.starts_with(U"raw")) return false;
    after = strip_text(after.substr(3), Side::kLeft);
    const bool trims = after.starts_with(U"-%}");
    if (!trims && !after.starts_with(U"%}")) return false;
    advance(rest_.size() - after.size() + (trims ? 3 : 2));
    if (trims) skip_space();
    return true;
  }

  void raw() {
    for (std::size_t at = rest_.find(U"{%"); at != TextView::npos; at = rest_.find(U"{%", at + 1)) {
      TextView after = rest_.substr(at + 2);
      const char32_t begin_sign = after.empty() ? U' ' : after.front();
      if (begin_sign == U'-' || begin_sign == U'+') after.remove_prefix(1);
      after = strip_text(after, Side::kLeft);
      if (!after.starts_with(U"endraw")) continue;
      after = strip_text(after.substr(6), Side::kLeft);
      const char32_t end_sign = after.empty() ? U' ' : after.front();
      if (end_sign == U'-' || end_sign == U'+') after.remove_prefix(1);
      if (!after.starts_with(U"%}")) continue;
      add_data(before_tag(rest_.substr(0, at), U'%', begin_sign));
      advance(rest_.size() - after.size() + 2);
      after_block(end_sign);
      return;
    }
    fail("raw text has no end");
  }

  void tag(Token::Kind begin, Token::Kind end, TextView end_text) {
    add(begin);
    std::vector<char32_t> open;
    while (true) {
      if (rest_.empty()) fail("a tag has no end");
      if (open.empty() && ends_tag(end, end_text)) return;
      if (is_python_space(rest_.front())) {
        skip_space();
      } else if (!number() && !name() && !string()) {
        symbol(open);
      }
    }
  }

  bool ends_tag(Token::Kind end, TextView end_text) {
    const char32_t sign = rest_.front();
    const bool is_block = end == Token::Kind::kBlockEnd;
    const bool has_sign = sign == U'-' || (sign == U'+' && is_block);
    if (!rest_.substr(has_sign ? 1 : 0).starts_with(end_text)) return false;
    add(end);
    advance(has_sign ? 3 : 2);
    if (is_block) {
      after_block(sign);
    } else if (sign == U'-') {
      skip_space();
    }
    return true;
  }

  bool number() {
    const NumberLiteral literal = read_number(rest_);
    if (literal.length == 0) return false;
    // "x.0.1" is two subscripts.
    const bool after_dot = !tokens_.empty() && tokens_.back().name == "." && rest_.data()[-1] == U'.';
    if (after_dot && literal.is_float) {
      std::size_t digits = 0;
      while (rest_[digits] >= U'0' && rest_[digits] <= U'9') ++digits;
      const NumberLiteral whole = read_number(rest_.substr(0, digits));
      add(Token::Kind::kInteger).integer = whole.integer;
      advance(whole.length);
      return true;
    }
    Token& token = add(literal.is_float ? Token::Kind::kFloat : Token::Kind::kInteger);
    token.integer = literal.integer;
    token.number = literal.number;
    advance(literal.length);
    return true;
  }

  bool name() {
    std::size_t length = 0;
    while (length < rest_.size() && is_word_character(rest_[length])) ++length;
    if (length == 0) return false;
    if (is_digit_character(rest_.front())) fail("a name begins with a digit");
    add(Token::Kind::kName).name = to_utf8(rest_.substr(0, length));
    advance(length);
    return true;
  }

  bool string() {
    const char32_t quote = rest_.front();
    if (quote != U'\'' && quote != U'"') return false;
    std::size_t end = 1;
    while (end < rest_.size() && rest_[end] != quote) end += rest_[end] == U'\\' ? 2 : 1;
    if (end >= rest_.size()) fail("a string has no end");
    add(Token::Kind::kString).text = unescape_string(rest_.substr(1, end - 1));
    advance(end + 1);
    return true;
  }

  void symbol(std::vector<char32_t>& open) {
    const auto* const found = std::ranges::find_if(kOperators, [&](std::string_view one) {
      return rest_.size() >= one.size() && std::ranges::equal(rest_.substr(0, one.size()), one, {}, {},
                                                              [](char c) { return static_cast<char32_t>(c); });
    });
    if (found == kOperators.end() || *found == "!") fail("there is a character that no expression has: " + shown());
    const char32_t character = rest_.front();
    if (character == U'(' || character == U'[' || character == U'{') {
      open.push_back(character == U'(' ? U')' : character == U'[' ? U']' : U'}');
    } else if (character == U')' || character == U']' || character == U'}') {
      if (open.empty() || open.back() != character) fail("a bracket does not match: " + shown());
      open.pop_back();
    }
    add(Token::Kind::kOperator).name = *found;
    advance(found->size());
  }

  std::string shown() const { return to_utf8(rest_.substr(0, 1)); }

  void add_data(TextView data) {
    if (!data.empty()) add(Token::Kind::kData).text = data;
  }

  Token& add(Token::Kind kind) {
    tokens_.push_back({.kind = kind, .line = line_});
    return tokens_.back();
  }

  void advance(std::size_t count) {
    if (count == 0) return;
    line_ += static_cast<int>(std::ranges::count(rest_.substr(0, count), U'\n'));
    line_starts_ = rest_[count - 1] == U'\n';
    rest_.remove_prefix(count);
  }

  Text text_;
  TextView rest_;
  std::vector<Token> tokens_;
  int line_ = 1;
  bool line_starts_ = true;  // the last character read was a line end
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace ballast::text::jinja
