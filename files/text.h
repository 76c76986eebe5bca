// Makes strings from files fit for a one-line message.
#ifndef BALLAST_FILES_TEXT_H_
#define BALLAST_FILES_TEXT_H_

#include <sstream>
#include <string>
#include <string_view>

namespace ballast::files {

/// Returns text in double quotes, with control characters escaped, invalid UTF-8 replaced and long text cut.
std::string in_quotes(std::string_view text);

/// Returns the parts, including numbers, as one string.
template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace ballast::files

#endif  // BALLAST_FILES_TEXT_H_
