// JSON as it is sent to clients.
#ifndef BALLAST_SERVE_API_JSON_TEXT_H_
#define BALLAST_SERVE_API_JSON_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>

namespace ballast::serve {

/// Returns JSON in one line. A token may be a part of a character: bytes that are not UTF-8 become U+FFFD.
inline std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_JSON_TEXT_H_
