// Lengths of strings in JSON under a schema. A grammar would need a state for each length, so they are counted while
// the text is written.
#ifndef BALLAST_TEXT_CONSTRAINT_STRING_LENGTHS_H_
#define BALLAST_TEXT_CONSTRAINT_STRING_LENGTHS_H_

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/constraint/regex_grammar.h"

namespace ballast::text {

/// What a rule of a schema's grammar says of lengths, and which rules the values in its values have.
struct LengthRule {
  std::optional<TextLengths> string{};              ///< of a string, in characters
  std::map<std::string, std::size_t> properties{};  ///< rules by key, which is written as in JSON, with quotes
  std::optional<std::size_t> other_properties{};
  std::vector<std::size_t> items{};  ///< rules of the first items
  std::optional<std::size_t> other_items{};
  std::vector<std::size_t> alternatives{};  ///< of these one applies; where several may, all their lengths hold
};

/// The rules; the first one is that of the whole text. Empty: no string has a length.
using LengthRules = std::vector<LengthRule>;

/// Follows a text of JSON byte by byte. The text is one that the schema's grammar allows.
class StringLengths {
 public:
  explicit StringLengths(std::shared_ptr<const LengthRules> rules);

  /// Adds bytes of the text.
  void push(std::string_view bytes);

  /// Returns whether the text is in a string whose length matters.
  bool is_limited() const { return in_string_ && !is_key_ && limits_.has_value(); }

  /// Returns whether the value is complete: a list, an object or a string. What comes after it does not count.
  bool ended() const { return ended_; }

  /// Returns whether a string was too long or too short.
  bool failed() const { return failed_; }

  bool in_string() const { return in_string_; }
  bool in_escape() const { return string_.escape != 0; }

  /// Returns how many more characters the string may have, and whether it may not end yet.
  std::size_t room() const { return limits_->most - std::min(string_.count, limits_->most); }
  bool is_short() const { return string_.count < limits_->least; }

 private:
  /// The position in a string.
  struct String {
    std::size_t count = 0;  ///< characters
    int escape = 0;         ///< bytes of an escape that are left; -1: its letter
    std::string digits{};   ///< hexadecimal, of an escape
    bool after_high_surrogate = false;

    /// Reads a byte. Returns whether the string ended.
    bool push(char byte);
  };

  struct Container {
    bool is_object = false;
    std::vector<std::size_t> rules{};
    std::string key{};  ///< the last one
    std::size_t index = 0;
  };

  void begin_string();
  void push_in_string(char byte);
  std::vector<std::size_t> value_rules() const;
  std::vector<std::size_t> with_alternatives(std::vector<std::size_t> rules) const;

  std::shared_ptr<const LengthRules> rules_;
  std::vector<Container> open_;
  bool expects_key_ = false;
  bool in_string_ = false;
  bool is_key_ = false;
  std::optional<TextLengths> limits_;  ///< of the string
  String string_;
  bool failed_ = false;
  bool ended_ = false;
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_CONSTRAINT_STRING_LENGTHS_H_
