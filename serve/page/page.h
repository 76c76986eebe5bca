// The web page at /: one embedded file.
#ifndef BALLAST_SERVE_PAGE_PAGE_H_
#define BALLAST_SERVE_PAGE_PAGE_H_

#include <string>
#include <string_view>

namespace ballast::serve {

std::string_view page_text();

/// Returns the Content-Security-Policy that allows only the page's own style and script, by their hashes.
const std::string& page_policy();

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_PAGE_PAGE_H_
