#include "text/constraint/string_lengths.h"

#include <algorithm>
#include <utility>

#include "files/utf8.h"

namespace ballast::text {

StringLengths::StringLengths(std::shared_ptr<const LengthRules> rules) : rules_(std::move(rules)) {}

std::vector<std::size_t> StringLengths::with_alternatives(std::vector<std::size_t> rules) const {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    for (const std::size_t rule : (*rules_)[rules[i]].alternatives) {
      if (std::ranges::find(rules, rule) == rules.end()) rules.push_back(rule);
    }
  }
  return rules;
}

/// Returns the rules of the value that begins here, without their alternatives.
std::vector<std::size_t> StringLengths::value_rules() const {
  if (open_.empty()) return {0};
  const Container& container = open_.back();
  std::vector<std::size_t> rules;
  const auto add = [&](std::size_t rule) {
    if (std::ranges::find(rules, rule) == rules.end()) rules.push_back(rule);
  };
  for (const std::size_t index : container.rules) {
    const LengthRule& rule = (*rules_)[index];
    if (!container.is_object) {
      if (container.index < rule.items.size()) {
        add(rule.items[container.index]);
      } else if (rule.other_items) {
        add(*rule.other_items);
      }
      continue;
    }
    const auto named = rule.properties.find(container.key);
    if (named != rule.properties.end()) {
      add(named->second);
    } else if (rule.other_properties) {
      add(*rule.other_properties);
    }
  }
  return rules;
}

void StringLengths::begin_string() {
  in_string_ = true;
  is_key_ = !open_.empty() && open_.back().is_object && expects_key_;
  string_ = {};
  limits_.reset();
  if (is_key_) {
    open_.back().key = "\"";
    return;
  }
  const std::vector<std::size_t> rules = value_rules();
  const bool is_one = rules.size() == 1;
  for (const std::size_t index : with_alternatives(rules)) {
    const std::optional<TextLengths>& own = (*rules_)[index].string;
    if (!own) continue;
    TextLengths both = limits_.value_or(TextLengths{});
    both = {.least = std::max(both.least, own->least), .most = std::min(both.most, own->most)};
    // Of alternatives of the string itself, the first one suffices. Alternatives of what the string is in may need it.
    if (both.least <= both.most || !is_one) limits_ = both;
  }
}

bool StringLengths::String::push(char byte) {
  if (escape == -1) {
    escape = byte == 'u' ? 4 : 0;
    digits.clear();
    if (byte != 'u') after_high_surrogate = false;
    return false;
  }
  if (escape > 0) {
    digits.push_back(static_cast<char>(byte | 0x20));
    if (--escape > 0) return false;
    // A pair of surrogates is one character.
    const bool is_low = after_high_surrogate && digits >= "dc00" && digits <= "dfff";
    if (is_low) --count;
    after_high_surrogate = digits >= "d800" && digits < "dc00";
    return false;
  }
  if (byte == '"') return true;
  if (byte == '\\') {
    escape = -1;
    ++count;
  } else if (!files::continues_code_point(byte)) {
    after_high_surrogate = false;
    ++count;
  }
  return false;
}

void StringLengths::push_in_string(char byte) {
  if (is_key_) open_.back().key.push_back(byte);
  const bool ends = string_.push(byte);
  if (ends) in_string_ = false;
  if (ends && open_.empty()) ended_ = true;
  if (is_key_ || !limits_) return;
  // The second half of a pair is counted until it is complete.
  const bool may_shrink = string_.after_high_surrogate && string_.escape != 0;
  if (ends ? string_.count < limits_->least : string_.count > limits_->most + (may_shrink ? 1 : 0)) failed_ = true;
}

void StringLengths::push(std::string_view bytes) {
  for (const char byte : bytes) {
    if (ended_) return;
    if (in_string_) {
      push_in_string(byte);
      continue;
    }
    switch (byte) {
      case '"':
        begin_string();
        break;
      case '{':
      case '[':
        open_.push_back({.is_object = byte == '{', .rules = with_alternatives(value_rules())});
        expects_key_ = byte == '{';
        break;
      case '}':
      case ']':
        if (!open_.empty()) open_.pop_back();
        if (open_.empty()) ended_ = true;
        expects_key_ = false;
        break;
      case ',':
        if (!open_.empty()) ++open_.back().index;
        expects_key_ = !open_.empty() && open_.back().is_object;
        break;
      case ':':
        expects_key_ = false;
        break;
      default:
        break;
    }
  }
}

}  // namespace ballast::text
