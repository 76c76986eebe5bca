// What a reader of a call's arguments returns for a symbol.
#ifndef BALLAST_TEXT_REPLY_ARGUMENT_RESULT_H_
#define BALLAST_TEXT_REPLY_ARGUMENT_RESULT_H_

#include <cstdint>

namespace ballast::text {

enum class ArgumentResult : std::uint8_t { kMore, kDone, kFailed };

}  // namespace ballast::text

#endif  // BALLAST_TEXT_REPLY_ARGUMENT_RESULT_H_
