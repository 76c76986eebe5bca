#include "text/constraint/grammar_limits.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "files/text.h"
#include "files/utf8.h"

namespace ballast::text {
namespace {

/// Reads a grammar's tokens and adds up what they become.
class GrammarMeasure {
 public:
  explicit GrammarMeasure(std::string_view grammar) : grammar_(grammar) {}

  void check() {
    while (at_ < grammar_.size()) read_token();
    if (open_.size() > 1) refuse("has a `(` without `)`");
    end_element();
    if (open_.back() > kMostGrammarStates) refuse_size();
  }

 private:
  static constexpr std::size_t kDeepest = 100;
  static constexpr std::size_t kUnrolled = 128;  // longer repetitions are counted

  [[noreturn]] static void refuse(std::string_view problem) { throw Error("grammar", problem); }
  [[noreturn]] static void refuse_size() {
    refuse(
        files::concat("is too large: its repetitions unrolled, it has more than ", kMostGrammarStates, " characters"));
  }

  void read_token() {
    const char character = grammar_[at_++];
    switch (character) {
      case '#':
        at_ = std::min(grammar_.find('\n', at_), grammar_.size());
        break;
      case '"':
        begin_element(skip_to('"'));
        break;
      case '[': {
        const bool is_wide = at_ < grammar_.size() && grammar_[at_] == '^';
        skip_to(']');
        begin_element(is_wide ? kWideState : 1);
        break;
      }
      case '(':
        end_element();
        if (open_.size() > kDeepest) refuse("is nested too deeply");
        open_.push_back(0);
        break;
      case ')': {
        end_element();
        if (open_.size() == 1) refuse("has a `)` without `(`");
        const std::size_t inner = open_.back();
        open_.pop_back();
        begin_element(inner);
        break;
      }
      case '{':
        element_ *= read_repetition();
        if (element_ > kMostGrammarStates) refuse_size();
        break;
      default:
        if (is_name(character)) {
          while (at_ < grammar_.size() && is_name(grammar_[at_])) ++at_;
          begin_element(1);
        }
    }
  }

  static bool is_name(char character) {
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') || character == '_' ||
           character == '-' || character == '.' || (character >= '0' && character <= '9');
  }

  /// Returns the number of bytes before the end of a literal or a class.
  std::size_t skip_to(char end) {
    std::size_t bytes = 0;
    while (at_ < grammar_.size() && grammar_[at_] != end) {
      if (grammar_[at_] == '\\') ++at_;
      ++at_;
      ++bytes;
    }
    if (at_ >= grammar_.size()) refuse(files::concat("has no `", end, "` at the end of a literal or a class"));
    ++at_;
    return bytes;
  }

  /// Returns how often an element is unrolled; one in which no number is wrong is left to the parser to say so.
  std::size_t read_repetition() {
    std::size_t largest = 0;
    std::size_t value = 0;
    while (at_ < grammar_.size() && grammar_[at_] != '}') {
      const char character = grammar_[at_++];
      if (character >= '0' && character <= '9') {
        value = value * 10 + static_cast<std::size_t>(character - '0');
        if (value > 1'000'000'000) refuse("repeats more than 1000000000 times");
        largest = std::max(largest, value);
      } else {
        value = 0;
      }
    }
    ++at_;
    return std::clamp<std::size_t>(largest, 1, kUnrolled);
  }

  void begin_element(std::size_t size) {
    end_element();
    element_ = size;
  }

  void end_element() {
    open_.back() += element_;
    element_ = 0;
    if (open_.back() > kMostGrammarStates) refuse_size();
  }

  std::string_view grammar_;
  std::size_t at_ = 0;
  std::size_t element_ = 0;           // the last element, which may be repeated
  std::vector<std::size_t> open_{0};  // sizes of what is in the open parentheses, the grammar first
};

}  // namespace

void check_grammar_limits(std::string_view grammar) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 17;
  if (grammar.size() > kMostBytes) {
    throw Error("grammar", files::concat("has ", grammar.size(), " bytes, must have at most ", kMostBytes));
  }
  if (!files::is_utf8(grammar)) throw Error("grammar", "is not UTF-8");
  if (grammar.find('\0') != std::string_view::npos) throw Error("grammar", "has a byte of 0");
  GrammarMeasure(grammar).check();
}

}  // namespace ballast::text
