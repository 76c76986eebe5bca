#include "serve/api/request_fields.h"

#include <cmath>

#include "files/strict_json.h"
#include "files/text.h"
#include "files/utf8.h"

namespace ballast::serve {
namespace {

// The context of error messages.
constexpr std::string_view kBody = "request";

std::string_view without_byte_order_mark(std::string_view body) {
  if (body.starts_with(files::kByteOrderMark)) body.remove_prefix(files::kByteOrderMark.size());
  return body;
}

void check_members(const nlohmann::json& json, std::string_view context) {
  if (!json.is_structured()) return;
  if (json.is_object() && json.size() > kMostOrderedMembers) {
    throw Error(files::concat(context, ": has an object of ", json.size(), " members, at most ", kMostOrderedMembers,
                              " are possible"));
  }
  for (const nlohmann::json& value : json) check_members(value, context);
}

nlohmann::json parse_body(std::string_view body) {
  if (!files::is_utf8(body)) throw ApiError(400, "the body is not UTF-8");
  try {
    nlohmann::json json = files::parse_strict_json(body, kBody);
    if (!json.is_object()) throw ApiError(400, "the body must be a JSON object");
    return json;
  } catch (const Error& error) {
    throw ApiError(400, error.what());
  }
}

/// Returns the end of the JSON value at `begin`, or of a string if it begins with a quote. The text is valid JSON.
std::size_t end_of_value(std::string_view text, std::size_t begin) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c != '"') continue;
      in_string = false;
      if (depth == 0) return i + 1;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return i;  // of the object around a number
      if (--depth == 0) return i + 1;
    } else if (c == ',' && depth == 0) {
      return i;
    }
  }
  return text.size();
}

/// Returns the text of a member's value in the text of an object that is valid JSON and has the member.
std::string_view member_text(std::string_view object, std::string_view name) {
  std::size_t key = object.find('{');
  while (true) {
    key = object.find('"', key + 1);
    const std::size_t key_end = end_of_value(object, key);
    const std::string_view written = object.substr(key, key_end - key);
    const std::size_t begin = object.find_first_not_of(" \t\r\n", object.find(':', key_end) + 1);
    const std::size_t end = end_of_value(object, begin);
    const bool is_it =
        written.contains('\\') ? nlohmann::json::parse(written) == name : written.substr(1, written.size() - 2) == name;
    if (is_it) return object.substr(begin, end - begin);
    key = end;
  }
}

}  // namespace

std::int64_t whole_number(const files::JsonReader& value, std::int64_t least, std::int64_t most) {
  if (!value.json().is_number_float()) return value.integer<std::int64_t>(least, most);
  const double number = value.number();
  if (number != std::trunc(number)) value.fail(files::concat("must be a whole number, is ", value.json().dump()));
  // Below 2^63 every whole double is an integer. The limits may not be exact as doubles, so they are compared after the
  // conversion.
  constexpr double kEnd = 0x1p63;
  const bool fits = number >= -kEnd && number < kEnd;
  const auto integer = fits ? static_cast<std::int64_t>(number) : 0;
  if (!fits || integer < least || integer > most) {
    value.fail(files::concat("must be between ", least, " and ", most, ", is ", value.json().dump()));
  }
  return integer;
}

std::vector<int> token_ids(const files::JsonReader& value, std::size_t vocab_size) {
  const auto most = static_cast<std::int64_t>(vocab_size) - 1;
  std::vector<int> ids;
  for (const files::JsonReader& element : value.elements()) {
    ids.push_back(static_cast<int>(whole_number(element, 0, most)));
  }
  return ids;
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, std::string_view context) {
  check_members(files::parse_strict_json(text, context), context);
  return nlohmann::ordered_json::parse(text);
}

RequestFields::RequestFields(std::string_view body)
    : body_(without_byte_order_mark(body)), json_(parse_body(body_)), reader_(json_, std::string(kBody)) {}

nlohmann::ordered_json RequestFields::ordered(std::string_view field) const {
  const bool exists = read(field, [&](const files::JsonReader& value) {
                        check_members(value.json(), field);
                        return true;
                      }).value_or(false);
  return exists ? nlohmann::ordered_json::parse(member_text(body_, field)) : nlohmann::ordered_json();
}

std::optional<double> RequestFields::number(std::string_view field, double least, double most) const {
  return read(field, [&](const files::JsonReader& value) {
    const double number = value.number();
    if (number < least || number > most)
      value.fail(files::concat("must be from ", least, " to ", most, ", is ", number));
    return number;
  });
}

std::optional<std::int64_t> RequestFields::integer(std::string_view field, std::int64_t least,
                                                   std::int64_t most) const {
  return read(field, [&](const files::JsonReader& value) { return whole_number(value, least, most); });
}

std::optional<std::string> RequestFields::text(std::string_view field) const {
  return read(field, [](const files::JsonReader& value) { return value.string(); });
}

bool RequestFields::flag(std::string_view field, bool fallback) const {
  return read(field, [](const files::JsonReader& value) { return value.boolean(); }).value_or(fallback);
}

}  // namespace ballast::serve
