#include "serve/api/request_fields.h"

#include "files/strict_json.h"
#include "files/text.h"
#include "files/utf8.h"

namespace ballast::serve {
namespace {

// Where a message says that something is.
constexpr std::string_view kBody = "request";

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

}  // namespace

RequestFields::RequestFields(std::string_view body) : json_(parse_body(body)), reader_(json_, std::string(kBody)) {}

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
  return read(field, [&](const files::JsonReader& value) { return value.integer<std::int64_t>(least, most); });
}

std::optional<std::string> RequestFields::text(std::string_view field) const {
  return read(field, [](const files::JsonReader& value) { return value.string(); });
}

bool RequestFields::flag(std::string_view field, bool fallback) const {
  return read(field, [](const files::JsonReader& value) { return value.boolean(); }).value_or(fallback);
}

void RequestFields::refuse(std::string_view field, std::string_view why) const {
  if (has(field)) throw ApiError(400, files::concat(field, ": ", why), std::string(field));
}

}  // namespace ballast::serve
