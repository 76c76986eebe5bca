#include "files/format_version.h"

#include <string>

#include "files/text.h"

namespace ballast::files {

void check_format_version(const JsonReader& object, std::size_t read, std::string_view advice) {
  const std::size_t version = object.size("version");
  if (version == read) return;
  std::string problem = concat("is ", version, ", this program reads version ", read);
  const std::string writer = object.text(kWrittenByField, "");  // files of the first builds do not say
  if (!writer.empty()) problem += "; it was written by " + writer;
  if (!advice.empty()) problem += concat(": ", advice);
  object.fail("version", problem);
}

}  // namespace ballast::files
