// Parses JSON from untrusted files.
#ifndef BALLAST_FILES_STRICT_JSON_H_
#define BALLAST_FILES_STRICT_JSON_H_

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

namespace ballast::files {

/// Parses `text`, which starts at byte `offset` of the file `context`. Unlike the library's own parser it refuses
/// objects with duplicate keys and nesting deeper than `max_depth`. Throws Error naming the context and, except for
/// these two, the byte.
nlohmann::json parse_strict_json(std::string_view text, std::string_view context, std::size_t offset = 0,
                                 std::size_t max_depth = 64);

/// Parses a file's JSON object. Numbers that Python writes and JSON does not have are read in transformers' form,
/// {"__float__": "Infinity"}, "-Infinity" or "NaN". Throws Error naming the file if it is not JSON, or not an object.
nlohmann::json parse_json_object(std::string_view text, const std::filesystem::path& path);

/// Reads a file's JSON object. Throws Error naming the file if it cannot be read, is not JSON, or is not an object.
nlohmann::json read_json_object(const std::filesystem::path& path);

}  // namespace ballast::files

#endif  // BALLAST_FILES_STRICT_JSON_H_
