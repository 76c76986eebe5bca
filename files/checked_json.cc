#include "files/checked_json.h"

#include <limits>

#include "ballast/error.h"

namespace ballast::files {
CheckedJson CheckedJson::at(std::string_view key) const {
  if (std::optional<CheckedJson> member = find(key)) return *std::move(member);
  fail("\"" + std::string(key) + "\" is missing");
}

std::optional<CheckedJson> CheckedJson::find(std::string_view key) const {
  const auto found = object().find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return CheckedJson(*found, context_ + (context_.ends_with(": ") ? "" : ".") + std::string(key));
}

std::vector<CheckedJson> CheckedJson::elements() const {
  std::vector<CheckedJson> elements;
  for (const nlohmann::json& element : array()) {
    elements.emplace_back(element, context_ + "[" + std::to_string(elements.size()) + "]");
  }
  return elements;
}

const std::string& CheckedJson::string() const {
  if (!value_->is_string()) wrong_type("a string");
  return value_->get_ref<const std::string&>();
}

bool CheckedJson::boolean() const {
  if (!value_->is_boolean()) wrong_type("true or false");
  return value_->get<bool>();
}

std::int64_t CheckedJson::integer() const {
  if (!value_->is_number_integer()) wrong_type("a whole number");
  if (value_->is_number_unsigned() && value_->get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
    fail("too large a number");
  }
  return value_->get<std::int64_t>();
}

bool CheckedJson::flag(std::string_view key, bool otherwise) const {
  const std::optional<CheckedJson> member = find(key);
  return member ? member->boolean() : otherwise;
}

const nlohmann::json& CheckedJson::object() const {
  if (!value_->is_object()) wrong_type("an object");
  return *value_;
}

const nlohmann::json& CheckedJson::array() const {
  if (!value_->is_array()) wrong_type("an array");
  return *value_;
}

void CheckedJson::fail(std::string_view problem) const {
  const bool at_root = context_.ends_with(": ");
  throw Error(at_root ? context_.substr(0, context_.size() - 2) : context_, problem);
}

void CheckedJson::wrong_type(std::string_view expected) const {
  fail("must be " + std::string(expected) + ", is " + value_->type_name());
}

}  // namespace ballast::files
