// Which ballast this is.
#ifndef BALLAST_VERSION_H_
#define BALLAST_VERSION_H_

#include <string_view>

namespace ballast {

/// "0.1.0": of the library, which is that of the headers beside it.
std::string_view version();

}  // namespace ballast

#endif  // BALLAST_VERSION_H_
