// Converts values to text like Python, and like its json module.
#ifndef BALLAST_TEXT_TEMPLATE_VALUES_PRINT_H_
#define BALLAST_TEXT_TEMPLATE_VALUES_PRINT_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "text/template/values/value.h"

namespace ballast::text::jinja {

/// Returns str(value). Fails for values that Python prints with an address.
Text print_text(const Value& value);
/// Returns repr(value).
Text print_repr(const Value& value);
/// Returns "1.0", "1e+16", "nan".
std::string print_float(double value);

struct JsonStyle {
  bool ascii_only = false;
  std::optional<Text> indent;  ///< of one level; none: all in one line
  Text between_items = U", ";
  Text after_key = U": ";
  bool sort_keys = false;
};
/// Returns json.dumps(value). Fails for values that JSON cannot represent.
Text print_json(const Value& value, const JsonStyle& style);

/// Strings get `origin`; integers beyond 64 bits become floats.
Value from_json(const nlohmann::ordered_json& json, Origin origin);

}  // namespace ballast::text::jinja

#endif  // BALLAST_TEXT_TEMPLATE_VALUES_PRINT_H_
