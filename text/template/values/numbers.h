// Parses numbers in strings like Python's int() and float().
#ifndef BALLAST_TEXT_TEMPLATE_VALUES_NUMBERS_H_
#define BALLAST_TEXT_TEMPLATE_VALUES_NUMBERS_H_

#include <cstdint>
#include <optional>

#include "text/template/values/marked_text.h"

namespace ballast::text::jinja {

/// Returns nullopt if `text` is not an integer in `base`; fails if it needs more than 64 bits.
std::optional<std::int64_t> read_integer(TextView text, std::int64_t base);
std::optional<double> read_float(TextView text);

}  // namespace ballast::text::jinja

#endif  // BALLAST_TEXT_TEMPLATE_VALUES_NUMBERS_H_
