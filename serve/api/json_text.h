// JSON as it is sent to clients.
#ifndef BALLAST_SERVE_API_JSON_TEXT_H_
#define BALLAST_SERVE_API_JSON_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "files/text.h"

namespace ballast::serve {

/// Returns JSON in one line. A token may be a part of a character: bytes that are not UTF-8 become U+FFFD.
inline std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// Returns an event of a stream: its data, after its name if it has one.
inline std::string event_text(std::string_view name, std::string_view data) {
  if (name.empty()) return files::concat("data: ", data, "\n\n");
  return files::concat("event: ", name, "\ndata: ", data, "\n\n");
}

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_JSON_TEXT_H_
