#include "files/json_reader.h"

#include <algorithm>
#include <cmath>

#include "ballast/error.h"
#include "files/text.h"
#include "files/utf8.h"

namespace ballast::files {
namespace {

constexpr std::size_t kLargestSize = (std::size_t{1} << 31) - 1;

// Returns the value as JSON for messages, cut if it is long.
std::string description(const nlohmann::json& value) {
  constexpr std::size_t kLongest = 80;
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() <= kLongest) return text;
  std::size_t end = kLongest;
  while (!is_utf8(std::string_view(text).substr(0, end))) --end;  // not inside a character
  return text.substr(0, end) + "...";
}

bool is_plain(std::string_view key) {
  return !key.empty() && std::ranges::all_of(key, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

}  // namespace

JsonReader::JsonReader(const nlohmann::json& value, std::string context)
    : value_(&value), container_(std::make_shared<Container>(Container{std::move(context), true})) {}

std::string JsonReader::context() const {
  if (std::holds_alternative<std::monostate>(step_)) return container_->context;
  if (const auto* index = std::get_if<std::size_t>(&step_)) return concat(container_->context, "[", *index, "]");
  const std::string_view key = std::get<std::string_view>(step_);
  return concat(container_->context, container_->is_file ? ": " : ".",
                is_plain(key) ? std::string(key) : in_quotes(key));
}

std::shared_ptr<const JsonReader::Container> JsonReader::as_container() const {
  if (std::holds_alternative<std::monostate>(step_)) return container_;
  return std::make_shared<Container>(Container{context(), false});
}

const std::string& JsonReader::string() const {
  if (!value_->is_string()) wrong_type("a string");
  return value_->get_ref<const std::string&>();
}

bool JsonReader::boolean() const {
  if (!value_->is_boolean()) wrong_type("true or false");
  return value_->get<bool>();
}

double JsonReader::number() const {
  if (!value_->is_number() || !std::isfinite(value_->get<double>())) wrong_type("a number");
  return value_->get<double>();
}

std::vector<JsonReader> JsonReader::elements() const {
  if (!value_->is_array()) wrong_type("a list");
  const std::shared_ptr<const Container> here = as_container();
  std::vector<JsonReader> elements;
  elements.reserve(value_->size());
  for (const nlohmann::json& element : *value_) elements.push_back(JsonReader(element, here, elements.size()));
  return elements;
}

std::vector<JsonReader> JsonReader::tuple(std::size_t size) const {
  std::vector<JsonReader> elements = this->elements();
  if (elements.size() != size) fail(concat("must have ", size, " elements, has ", elements.size()));
  return elements;
}

std::vector<std::pair<std::string_view, JsonReader>> JsonReader::members() const {
  check_object();
  const std::shared_ptr<const Container> here = as_container();
  std::vector<std::pair<std::string_view, JsonReader>> members;
  members.reserve(value_->size());
  for (const auto& [key, value] : value_->get_ref<const nlohmann::json::object_t&>()) {
    members.emplace_back(key, JsonReader(value, here, std::string_view(key)));
  }
  return members;
}

std::vector<std::string> JsonReader::strings() const {
  std::vector<std::string> strings;
  for (const JsonReader& element : elements()) strings.push_back(element.string());
  return strings;
}

std::optional<JsonReader> JsonReader::find(std::string_view field) const {
  check_object();
  const auto found = value_->find(field);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return JsonReader(*found, as_container(), std::string_view(found.key()));
}

bool JsonReader::has(std::string_view field) const {
  check_object();
  const auto found = value_->find(field);
  return found != value_->end() && !found->is_null();
}

JsonReader JsonReader::at(std::string_view field) const {
  if (std::optional<JsonReader> member = find(field)) return *std::move(member);
  fail(field, "missing");
}

JsonReader JsonReader::object(std::string_view field) const {
  JsonReader member = at(field);
  member.check_object();
  return member;
}

std::size_t JsonReader::size(std::string_view field) const {
  return at(field).integer<std::size_t>(1, kLargestSize);
}

std::size_t JsonReader::size(std::string_view field, std::size_t fallback) const {
  return has(field) ? size(field) : fallback;
}

std::size_t JsonReader::count(std::string_view field) const {
  return at(field).integer<std::size_t>(0, kLargestSize);
}

std::size_t JsonReader::count(std::string_view field, std::size_t fallback) const {
  return has(field) ? count(field) : fallback;
}

double JsonReader::number(std::string_view field, double fallback) const {
  return has(field) ? number(field) : fallback;
}

double JsonReader::positive(std::string_view field) const {
  const double value = number(field);
  if (value <= 0) fail(field, "must be positive");
  return value;
}

double JsonReader::positive(std::string_view field, double fallback) const {
  return has(field) ? positive(field) : fallback;
}

bool JsonReader::flag(std::string_view field, bool fallback) const {
  return has(field) ? flag(field) : fallback;
}

std::string JsonReader::text(std::string_view field, std::string_view fallback) const {
  return has(field) ? text(field) : std::string(fallback);
}

void JsonReader::fail(std::string_view problem) const {
  throw Error(context(), problem);
}

void JsonReader::fail(std::string_view field, std::string_view problem) const {
  JsonReader(*value_, as_container(), field).fail(problem);
}

void JsonReader::check_object() const {
  if (!value_->is_object()) wrong_type("an object");
}

void JsonReader::wrong_type(std::string_view expected) const {
  fail(concat("must be ", expected, ", is ", description(*value_)));
}

void JsonReader::out_of_range(const std::string& least, const std::string& most) const {
  const bool is_power = most == std::to_string(kLargestSize);
  fail(concat("must be between ", least, " and ", is_power ? "2^31 - 1" : most, ", is ", description(*value_)));
}

}  // namespace ballast::files
