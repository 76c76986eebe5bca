#include "text/constraint/regex_grammar.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "files/text.h"
#include "files/utf8.h"
#include "text/constraint/grammar_limits.h"
#include "text/constraint/grammar_text.h"
#include "text/tokenizer.h"

namespace ballast::text {
namespace {

const std::vector<CodePoints> kRegexDigits = {{'0', '9'}};
const std::vector<CodePoints> kRegexWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const std::vector<CodePoints> kRegexSpaces = {{'\t', '\r'}, {' ', ' '}};
const std::vector<CodePoints> kRegexPrintable = {{' ', '~'}};
const std::vector<CodePoints> kJsonEscaped = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};

/// Returns a JSON escape of one of kJsonEscaped.
std::string json_escape(char32_t code_point) {
  constexpr std::array<std::pair<char32_t, char>, 7> kShort = {
      {{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}}};
  for (const auto& [character, letter] : kShort) {
    if (character == code_point) return {'\\', letter};
  }
  std::array<char, 8> buffer;
  std::snprintf(buffer.data(), buffer.size(), "\\u%04x", static_cast<unsigned>(code_point));
  return buffer.data();
}

/// A part of an expression.
struct RegexNode {
  enum class Kind : std::uint8_t { kCharacter, kSequence, kChoice, kRepeated };
  Kind kind = Kind::kSequence;
  std::vector<CodePoints> set{};   ///< of kCharacter
  bool any_json = false;           ///< kCharacter: any character of a JSON string, also with an escape
  std::vector<RegexNode> parts{};  ///< one of kRepeated
  std::size_t least = 1;           ///< kRepeated: times
  std::size_t most = 1;
};

std::size_t add_lengths(std::size_t a, std::size_t b) {
  return a > Tokenizer::kNoLimit - b ? Tokenizer::kNoLimit : a + b;
}

std::size_t multiply_lengths(std::size_t a, std::size_t b) {
  if (a == 0 || b == 0) return 0;
  return a > Tokenizer::kNoLimit / b ? Tokenizer::kNoLimit : a * b;
}

class RegexParser {
 public:
  RegexParser(std::string_view pattern, RegexUse use, std::string_view context)
      : pattern_(pattern), use_(use), context_(context) {}

  RegexNode parse() {
    if (!files::is_utf8(pattern_)) refuse("is not UTF-8");
    RegexNode whole = alternatives(0);
    if (at_ < pattern_.size()) refuse("has a `)` without `(`");
    return whole;
  }

  [[noreturn]] void refuse(std::string_view problem) const {
    throw Error(context_, files::concat("the expression ", files::in_quotes(pattern_), " ", problem));
  }

 private:
  static constexpr std::size_t kDeepest = 100;
  static constexpr std::size_t kMostRepetitions = 1'000'000'000;

  [[noreturn]] void refuse_kind(std::string_view what) const {
    throw UnsupportedError(context_,
                           files::concat(what, " in the expression ", files::in_quotes(pattern_), " is not supported"));
  }

  bool more() const { return at_ < pattern_.size(); }
  bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool skip(std::string_view text) {
    if (!next_is(text)) return false;
    at_ += text.size();
    return true;
  }

  char32_t take_code_point() {
    const std::string_view rest = pattern_.substr(at_);
    at_ += files::utf8_step(rest, 0).length;
    return files::first_code_point(rest);
  }

  RegexNode alternatives(std::size_t depth) {
    if (depth > kDeepest) refuse("is nested too deeply");
    RegexNode first = sequence(depth);
    if (!next_is("|")) return first;
    RegexNode all = {.kind = RegexNode::Kind::kChoice, .parts = {std::move(first)}};
    while (skip("|")) all.parts.push_back(sequence(depth));
    return all;
  }

  RegexNode sequence(std::size_t depth) {
    RegexNode all = {.kind = RegexNode::Kind::kSequence};
    const bool at_beginning = depth == 0 && skip("^");
    bool at_end = false;
    while (more() && !next_is("|") && !next_is(")") && !at_end) {
      if (next_is("$")) {
        const std::string_view after = pattern_.substr(at_ + 1);
        at_end = depth == 0 && (after.empty() || after.starts_with("|"));
        if (!at_end) refuse_kind("`$` before the end");
        ++at_;
      } else if (next_is("^")) {
        refuse_kind("`^` after the beginning");
      } else {
        all.parts.push_back(repeated(depth));
      }
    }
    if (use_ == RegexUse::kJsonString && at_beginning != at_end) {
      all.parts.insert(at_beginning ? all.parts.end() : all.parts.begin(), any_text());
    }
    return all;
  }

  RegexNode repeated(std::size_t depth) {
    RegexNode part = element(depth);
    const std::optional<std::pair<std::size_t, std::size_t>> times = repetition();
    if (!times) return part;
    skip("?");  // a lazy repetition matches the same texts
    if (next_is("+")) refuse_kind("a possessive repetition");
    if (repetition()) refuse("repeats a repetition");
    RegexNode all = {.kind = RegexNode::Kind::kRepeated, .least = times->first, .most = times->second};
    all.parts.push_back(std::move(part));
    return all;
  }

  std::optional<std::pair<std::size_t, std::size_t>> repetition() {
    if (skip("*")) return std::pair(std::size_t{0}, Tokenizer::kNoLimit);
    if (skip("+")) return std::pair(std::size_t{1}, Tokenizer::kNoLimit);
    if (skip("?")) return std::pair(std::size_t{0}, std::size_t{1});
    if (!next_is("{")) return std::nullopt;
    const std::size_t begin = at_;
    ++at_;
    const std::optional<std::size_t> least = number();
    std::optional<std::size_t> most = least;
    if (least && skip(",")) most = next_is("}") ? Tokenizer::kNoLimit : number();
    if (!least || !most || !skip("}")) {  // a literal brace
      at_ = begin;
      return std::nullopt;
    }
    if (*most < *least) refuse("has a repetition whose limits are reversed");
    return std::pair(*least, *most);
  }

  std::optional<std::size_t> number() {
    if (!more() || pattern_[at_] < '0' || pattern_[at_] > '9') return std::nullopt;
    std::size_t value = 0;
    while (more() && pattern_[at_] >= '0' && pattern_[at_] <= '9') {
      value = value * 10 + static_cast<std::size_t>(pattern_[at_++] - '0');
      if (value > kMostRepetitions) refuse("repeats more than 1000000000 times");
    }
    return value;
  }

  RegexNode element(std::size_t depth) {
    if (next_is("(")) return group(depth);
    if (next_is("[")) return characters(read_class());
    if (skip(".")) return characters(complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
    if (next_is("*") || next_is("+") || next_is("?")) refuse("repeats nothing");
    if (skip("\\")) return characters(escape(false));
    const char32_t character = take_code_point();
    return characters({{character, character}});
  }

  RegexNode group(std::size_t depth) {
    skip("(");
    if (skip("?")) {
      if (skip("P<") || (next_is("<") && !next_is("<=") && !next_is("<!"))) {
        const std::size_t end = pattern_.find('>', at_);
        if (end == std::string_view::npos) refuse("has a group whose name does not end");
        at_ = end + 1;
      } else if (!skip(":")) {
        refuse_kind(files::concat("`(?", pattern_.substr(at_, 1), "`"));
      }
    }
    RegexNode part = alternatives(depth + 1);
    if (!skip(")")) refuse("has a `(` without `)`");
    return part;
  }

  std::vector<CodePoints> read_class() {
    skip("[");
    const bool negated = skip("^");
    std::vector<CodePoints> ranges;
    bool is_first = true;
    while (is_first || !next_is("]")) {
      if (!more()) refuse("has a `[` without `]`");
      if (is_first && next_is("]")) refuse_kind("an empty class");
      is_first = false;
      if (next_is("[:") || next_is("[[")) refuse_kind("a class in a class");
      const std::vector<CodePoints> from = class_element();
      const bool is_range = next_is("-") && !next_is("-]") && from.size() == 1 && from[0].first == from[0].last;
      if (!is_range) {
        ranges.insert(ranges.end(), from.begin(), from.end());
        continue;
      }
      skip("-");
      if (!more()) refuse("has a `[` without `]`");
      const std::vector<CodePoints> to = class_element();
      if (to.size() != 1 || to[0].first != to[0].last || to[0].first < from[0].first) {
        refuse("has a range whose ends are reversed or are classes");
      }
      ranges.push_back({from[0].first, to[0].first});
    }
    skip("]");
    return negated ? complement(std::move(ranges)) : normalized(std::move(ranges));
  }

  std::vector<CodePoints> class_element() {
    if (skip("\\")) return escape(true);
    const char32_t character = take_code_point();
    return {{character, character}};
  }

  std::vector<CodePoints> escape(bool in_class) {
    if (!more()) refuse("ends with a backslash");
    const char32_t letter = take_code_point();
    const auto ascii_others = [](const std::vector<CodePoints>& set) {
      return intersection(kRegexPrintable, complement(set));
    };
    switch (letter) {
      case 'd':
        return kRegexDigits;
      case 'D':
        return ascii_others(kRegexDigits);
      case 'w':
        return kRegexWord;
      case 'W':
        return ascii_others(kRegexWord);
      case 's':
        return kRegexSpaces;
      case 'S':
        return ascii_others(kRegexSpaces);
      case 'n':
        return {{'\n', '\n'}};
      case 'r':
        return {{'\r', '\r'}};
      case 't':
        return {{'\t', '\t'}};
      case 'f':
        return {{'\f', '\f'}};
      case 'v':
        return {{'\v', '\v'}};
      case 'x':
        return hexadecimal(2);
      case 'u':
        return hexadecimal(4);
      default:
        break;
    }
    if (letter == 'b' && in_class) return {{'\b', '\b'}};
    const bool is_name =
        (letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z');
    if (is_name) refuse_kind(files::concat("`\\", static_cast<char>(letter), "`"));
    return {{letter, letter}};
  }

  std::vector<CodePoints> hexadecimal(std::size_t digits) {
    const std::string_view text = pattern_.substr(at_, digits);
    char32_t value = 0;
    if (text.size() < digits) refuse("ends within an escape");
    for (const char digit : text) {
      const std::size_t index = std::string_view("0123456789abcdef").find(static_cast<char>(digit | 0x20));
      const bool is_digit = (digit >= '0' && digit <= '9') || index >= 10;
      if (!is_digit || index == std::string_view::npos) refuse("has an escape that is not hexadecimal");
      value = value * 16 + static_cast<char32_t>(index);
    }
    at_ += digits;
    if (value >= 0xD800 && value <= 0xDFFF) refuse_kind("half a surrogate pair");
    return {{value, value}};
  }

  RegexNode characters(std::vector<CodePoints> set) const {
    if (set.empty()) refuse("has a class without characters");
    return {.kind = RegexNode::Kind::kCharacter, .set = std::move(set)};
  }

  static RegexNode any_text() {
    return {.kind = RegexNode::Kind::kRepeated,
            .parts = {{.kind = RegexNode::Kind::kCharacter, .any_json = true}},
            .least = 0,
            .most = Tokenizer::kNoLimit};
  }

  std::string_view pattern_;
  RegexUse use_;
  std::string_view context_;
  std::size_t at_ = 0;
};

TextLengths lengths_of(const RegexNode& node) {
  using enum RegexNode::Kind;
  if (node.kind == kCharacter) return {1, 1};
  if (node.kind == kRepeated) {
    const TextLengths one = lengths_of(node.parts[0]);
    return {multiply_lengths(one.least, node.least), multiply_lengths(one.most, node.most)};
  }
  TextLengths all = node.kind == kChoice ? lengths_of(node.parts[0]) : TextLengths{0, 0};
  for (const RegexNode& part : node.parts) {
    const TextLengths one = lengths_of(part);
    if (node.kind == kChoice) {
      all = {std::min(all.least, one.least), std::max(all.most, one.most)};
    } else {
      all = {add_lengths(all.least, one.least), add_lengths(all.most, one.most)};
    }
  }
  return all;
}

/// Removes texts of more than `most` characters. Returns false if none is left.
bool shorten(RegexNode& node, std::size_t most) {
  using enum RegexNode::Kind;
  const TextLengths lengths = lengths_of(node);
  if (lengths.most <= most) return true;
  if (lengths.least > most) return false;
  if (node.kind == kChoice) {
    std::erase_if(node.parts, [&](RegexNode& part) { return !shorten(part, most); });
    return !node.parts.empty();
  }
  if (node.kind == kRepeated) {
    const TextLengths one = lengths_of(node.parts[0]);
    if (one.most == 0) return true;
    if (one.most <= most && most / one.most >= std::max<std::size_t>(node.least, 1)) {
      node.most = std::min(node.most, most / one.most);
      return true;
    }
    // Fewer repetitions do not suffice: each becomes shorter.
    const std::size_t times = std::max<std::size_t>(node.least, 1);
    node.most = times;
    if (shorten(node.parts[0], most / times)) return true;
    if (node.least > 0) return false;
    node.most = 0;
    return true;
  }
  // Parts of fixed lengths keep them, each of the others gets the same share of the rest.
  std::size_t room = most - lengths.least;
  std::vector<RegexNode*> flexible;
  for (RegexNode& part : node.parts) {
    const TextLengths one = lengths_of(part);
    if (one.most > one.least) flexible.push_back(&part);
  }
  // Those that need least come first, so that they leave more to the others.
  std::ranges::stable_sort(flexible, {}, [](const RegexNode* part) {
    const TextLengths one = lengths_of(*part);
    return one.most - one.least;
  });
  for (std::size_t i = 0; i < flexible.size(); ++i) {
    const std::size_t least = lengths_of(*flexible[i]).least;
    const std::size_t share = room / (flexible.size() - i);
    if (!shorten(*flexible[i], least + share)) return false;
    room -= std::min(share, lengths_of(*flexible[i]).most - least);
  }
  return true;
}

/// Removes texts of fewer than `least` characters. Returns false if none is left.
bool lengthen(RegexNode& node, std::size_t least) {
  using enum RegexNode::Kind;
  const TextLengths lengths = lengths_of(node);
  if (lengths.least >= least) return true;
  if (lengths.most < least) return false;
  if (node.kind == kChoice) {
    std::erase_if(node.parts, [&](RegexNode& part) { return !lengthen(part, least); });
    return !node.parts.empty();
  }
  if (node.kind == kRepeated) {
    if (lengths_of(node.parts[0]).least == 0 && !lengthen(node.parts[0], 1)) return false;
    const std::size_t one = lengths_of(node.parts[0]).least;
    const std::size_t times = (least + one - 1) / one;
    if (times <= node.most) {
      node.least = std::max(node.least, times);
      return true;
    }
    node.least = node.most;
    return lengthen(node.parts[0], (least + node.most - 1) / node.most);
  }
  std::size_t missing = least - lengths.least;
  for (RegexNode& part : node.parts) {
    const TextLengths one = lengths_of(part);
    const std::size_t more = std::min(missing, one.most - one.least);
    if (more > 0 && !lengthen(part, one.least + more)) return false;
    missing -= std::min(missing, lengths_of(part).least - one.least);
  }
  return missing == 0;
}

/// Writes an expression of a grammar.
class RegexWriter {
 public:
  explicit RegexWriter(RegexUse use) : is_plain_(use == RegexUse::kWholeText) {}

  std::string write(const RegexNode& node) const {
    using enum RegexNode::Kind;
    if (node.kind == kCharacter) return node.any_json ? json_character() : character(node.set);
    if (node.kind == kRepeated) {
      if (node.most == 0) return "\"\"";
      return "(" + write(node.parts[0]) + ")" + grammar_repetition(node.least, node.most);
    }
    std::string text;
    for (const RegexNode& part : node.parts) {
      if (!text.empty()) text += node.kind == kChoice ? " | " : " ";
      text += write(part);
    }
    if (text.empty()) return "\"\"";
    return node.kind == kChoice ? "(" + text + ")" : text;
  }

 private:
  std::string character(const std::vector<CodePoints>& set) const {
    const std::vector<CodePoints> plain = is_plain_ ? set : intersection(set, complement(kJsonEscaped));
    std::vector<std::string> forms;
    if (!plain.empty()) forms.push_back(grammar_class(plain));
    if (!is_plain_) {
      for (const CodePoints& range : intersection(set, kJsonEscaped)) {
        for (char32_t code = range.first; code <= range.last; ++code) {
          forms.push_back(grammar_literal(json_escape(code)));
        }
      }
    }
    if (forms.size() == 1) return forms.front();
    std::string text;
    for (const std::string& form : forms) text += (text.empty() ? "(" : " | ") + form;
    return text + ")";
  }

  bool is_plain_;
};

/// Returns the number of states when repetitions are unrolled; longer ones are counted.
std::size_t unrolled_size(const RegexNode& node) {
  constexpr std::size_t kUnrolled = 128;
  std::size_t size = 0;
  if (node.kind == RegexNode::Kind::kCharacter) {
    constexpr char32_t kManyCharacters = 1000;
    char32_t characters = node.any_json ? kManyCharacters : 0;
    for (const CodePoints& range : node.set) characters += range.last - range.first + 1;
    size = characters < kManyCharacters ? 1 : kWideState;
  }
  for (const RegexNode& part : node.parts) size = add_lengths(size, unrolled_size(part));
  if (node.kind != RegexNode::Kind::kRepeated) return size;
  const std::size_t times = node.most == Tokenizer::kNoLimit ? node.least + 1 : node.most;
  return multiply_lengths(size, std::min(times, kUnrolled));
}

}  // namespace

std::string regex_grammar(std::string_view pattern, RegexUse use, std::string_view context,
                          const TextLengths& lengths) {
  RegexParser parser(pattern, use, context);
  RegexNode node = parser.parse();
  if (!shorten(node, lengths.most) || !lengthen(node, lengths.least) || lengths_of(node).most > lengths.most) {
    parser.refuse(files::concat("matches no text of the allowed length, or none that is found"));
  }
  if (unrolled_size(node) > kMostGrammarStates) parser.refuse("becomes too large when its repetitions are unrolled");
  return RegexWriter(use).write(node);
}

std::string json_plain_character() {
  return grammar_class(complement(kJsonEscaped));
}

std::string json_character() {
  const std::string hexadecimal = "[0-9A-Fa-f]";
  const std::string three = hexadecimal + " " + hexadecimal + " " + hexadecimal;
  const std::string low = "\"\\\\u\" [Dd] [C-Fc-f] " + hexadecimal + " " + hexadecimal;
  const std::string high = "[Dd] [89ABab] " + hexadecimal + " " + hexadecimal + " " + low;
  return "(" + json_plain_character() + " | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" ([0-9A-CE-Fa-ce-f] " + three +
         " | [Dd] [0-7] " + hexadecimal + " " + hexadecimal + " | " + high + ")))";
}

}  // namespace ballast::text
