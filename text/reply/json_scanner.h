// Checks JSON byte by byte while a model writes it.
#ifndef BALLAST_TEXT_REPLY_JSON_SCANNER_H_
#define BALLAST_TEXT_REPLY_JSON_SCANNER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ballast::text {

/// Takes a JSON object or list (RFC 8259), white space before it included.
class JsonScanner {
 public:
  /// Takes the next byte. Returns false if the text so far does not begin an object or a list, or is nested too deeply.
  /// Must not be called again after that, nor once done.
  bool take(char c);

  /// Returns whether the object or list is closed.
  bool done() const { return state_ == State::kDone; }

  /// Returns the number of open objects and lists.
  std::size_t depth() const { return open_.size(); }

  bool in_string() const { return state_ == State::kString || state_ == State::kEscape || state_ == State::kHex; }

  /// Returns whether the current or last string is a name of an object's member.
  bool is_name() const { return is_name_; }

 private:
  enum class State : std::uint8_t {
    kRoot,
    kValue,         ///< a value must follow
    kFirstElement,  ///< a value, or the end of a list
    kFirstName,     ///< a name, or the end of an object
    kName,
    kColon,
    kAfterValue,
    kString,
    kEscape,
    kHex,
    kWord,  ///< true, false or null
    kMinus,
    kZero,
    kDigits,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits,
    kDone,
  };

  bool begin_value(char c);
  bool begin_word(std::string_view word);
  bool after_value(char c);
  bool in_number(char c);
  bool go(State state);
  void begin_string(bool is_name);
  bool open(char c);
  bool close();

  State state_ = State::kRoot;
  std::vector<char> open_;      ///< '{' and '['
  std::string_view word_rest_;  ///< what is left of true, false or null
  int hex_left_ = 0;
  bool is_name_ = false;
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_REPLY_JSON_SCANNER_H_
