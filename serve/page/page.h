// The page at /: one file, embedded.
#ifndef BALLAST_SERVE_PAGE_PAGE_H_
#define BALLAST_SERVE_PAGE_PAGE_H_

#include <string>
#include <string_view>

namespace ballast::serve {

std::string_view page_text();

/// The Content-Security-Policy under which nothing but the page's own style and script works, by their hashes.
const std::string& page_policy();

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_PAGE_PAGE_H_
