// Objects of ballast's own files that have a "version" say in "written_by", too, which program wrote them.
#ifndef BALLAST_FILES_FORMAT_VERSION_H_
#define BALLAST_FILES_FORMAT_VERSION_H_

#include <cstddef>
#include <string_view>

#include "files/json_reader.h"

namespace ballast::files {

inline constexpr const char* kWrittenByField = "written_by";

/// Throws Error when `object` has another version than the one that is read. `advice` says what to do then.
void check_format_version(const JsonReader& object, std::size_t read, std::string_view advice = {});

}  // namespace ballast::files

#endif  // BALLAST_FILES_FORMAT_VERSION_H_
