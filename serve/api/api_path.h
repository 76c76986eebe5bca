// Paths of endpoints, and the APIs to which they belong.
#ifndef BALLAST_SERVE_API_API_PATH_H_
#define BALLAST_SERVE_API_API_PATH_H_

#include <optional>
#include <string>
#include <string_view>

#include "serve/api/api_error.h"

namespace ballast::serve {

/// Returns the canonical form of a path, without double and trailing slashes and without the version, which clients may
/// leave out: "//v1//models/" -> "/models".
std::string canonical_path(std::string_view path);

/// Decodes "a%2Fb" to "a/b". Invalid escapes are kept.
std::string without_escapes(std::string_view text);

/// Returns the end of a path after an endpoint's, decoded: "/v1/models/a%2Fb" after "/models/" is "a/b".
std::string id_after(std::string_view path, std::string_view endpoint);

/// Returns the decoded value of a query's field: that of "model" in "a=1&model=b%2Fc" is "b/c".
std::optional<std::string> query_value(std::string_view query, std::string_view name);

/// Returns the form of errors of the API to which a path belongs.
ErrorForm error_form(std::string_view path);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_API_PATH_H_
