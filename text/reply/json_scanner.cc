#include "text/reply/json_scanner.h"

namespace ballast::text {
namespace {

// As in files::parse_strict_json, so that every accepted text can be read again.
constexpr std::size_t kDeepestJson = 64;

constexpr std::string_view kJsonSpace = " \t\r\n";

bool is_decimal(char c) {
  return c >= '0' && c <= '9';
}

bool is_hexadecimal(char c) {
  return is_decimal(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

bool JsonScanner::take(char c) {
  switch (state_) {
    case State::kString:
      if (c == '\\') return go(State::kEscape);
      if (c == '"') return go(is_name_ ? State::kColon : State::kAfterValue);
      return static_cast<unsigned char>(c) >= 0x20;
    case State::kEscape:
      hex_left_ = 4;
      if (c == 'u') return go(State::kHex);
      return std::string_view("\"\\/bfnrt").contains(c) && go(State::kString);
    case State::kHex:
      if (--hex_left_ == 0) state_ = State::kString;
      return is_hexadecimal(c);
    case State::kWord:
      if (c != word_rest_.front()) return false;
      word_rest_.remove_prefix(1);
      return !word_rest_.empty() || go(State::kAfterValue);
    case State::kMinus:
    case State::kZero:
    case State::kDigits:
    case State::kPoint:
    case State::kFraction:
    case State::kExponent:
    case State::kExponentSign:
    case State::kExponentDigits:
      return in_number(c);
    default:
      break;
  }
  if (kJsonSpace.contains(c)) return state_ != State::kDone;
  switch (state_) {
    case State::kRoot:
      return (c == '{' || c == '[') && open(c);
    case State::kFirstElement:
      return c == ']' ? close() : begin_value(c);
    case State::kValue:
      return begin_value(c);
    case State::kFirstName:
      if (c == '}') return close();
      [[fallthrough]];
    case State::kName:
      if (c != '"') return false;
      begin_string(true);
      return true;
    case State::kColon:
      return c == ':' && go(State::kValue);
    case State::kAfterValue:
      return after_value(c);
    default:
      return false;
  }
}

bool JsonScanner::go(State state) {
  state_ = state;
  return true;
}

void JsonScanner::begin_string(bool is_name) {
  is_name_ = is_name;
  state_ = State::kString;
}

bool JsonScanner::open(char c) {
  if (open_.size() == kDeepestJson) return false;
  open_.push_back(c);
  return go(c == '{' ? State::kFirstName : State::kFirstElement);
}

bool JsonScanner::close() {
  open_.pop_back();
  return go(open_.empty() ? State::kDone : State::kAfterValue);
}

bool JsonScanner::begin_word(std::string_view word) {
  word_rest_ = word.substr(1);
  return go(State::kWord);
}

bool JsonScanner::begin_value(char c) {
  switch (c) {
    case '{':
    case '[':
      return open(c);
    case '"':
      begin_string(false);
      return true;
    case 't':
      return begin_word("true");
    case 'f':
      return begin_word("false");
    case 'n':
      return begin_word("null");
    case '-':
      return go(State::kMinus);
    case '0':
      return go(State::kZero);
    default:
      return is_decimal(c) && go(State::kDigits);
  }
}

bool JsonScanner::after_value(char c) {
  const bool in_object = open_.back() == '{';
  if (c == ',') return go(in_object ? State::kName : State::kValue);
  return c == (in_object ? '}' : ']') && close();
}

/// Takes a byte of a number, or the one after it.
bool JsonScanner::in_number(char c) {
  const bool may_continue = state_ == State::kZero || state_ == State::kDigits || state_ == State::kFraction;
  if (is_decimal(c)) {
    switch (state_) {
      case State::kZero:
        return false;
      case State::kMinus:
        return go(c == '0' ? State::kZero : State::kDigits);
      case State::kPoint:
        return go(State::kFraction);
      case State::kExponent:
      case State::kExponentSign:
        return go(State::kExponentDigits);
      default:
        return true;
    }
  }
  if (c == '.') return (state_ == State::kZero || state_ == State::kDigits) && go(State::kPoint);
  if (c == 'e' || c == 'E') return may_continue && go(State::kExponent);
  if (c == '+' || c == '-') return state_ == State::kExponent && go(State::kExponentSign);
  if (!may_continue && state_ != State::kExponentDigits) return false;
  state_ = State::kAfterValue;
  return take(c);
}

}  // namespace ballast::text
