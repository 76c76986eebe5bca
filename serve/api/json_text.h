// JSON that is sent.
#ifndef BALLAST_SERVE_API_JSON_TEXT_H_
#define BALLAST_SERVE_API_JSON_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>

namespace ballast::serve {

/// In one line. A token may be a part of a character: what is not UTF-8 becomes U+FFFD.
inline std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_JSON_TEXT_H_
