// Versioned objects of ballast's own files, which also have the program that wrote them in "written_by".
#ifndef BALLAST_FILES_FORMAT_VERSION_H_
#define BALLAST_FILES_FORMAT_VERSION_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "files/json_reader.h"
#include "files/text.h"

namespace ballast::files {

inline constexpr const char* kWrittenByField = "written_by";

/// Throws Error if the version of `object` is not `read`. `advice` is added to the message.
inline void check_format_version(const JsonReader& object, std::size_t read, std::string_view advice = {}) {
  const std::size_t version = object.size("version");
  if (version == read) return;
  std::string problem = concat("is ", version, ", this program reads version ", read);
  const std::string writer = object.text(kWrittenByField, "");  // absent in files of the first builds
  if (!writer.empty()) problem += "; it was written by " + writer;
  if (!advice.empty()) problem += concat(": ", advice);
  object.fail("version", problem);
}

}  // namespace ballast::files

#endif  // BALLAST_FILES_FORMAT_VERSION_H_
