// Any bytes are a statistics file: it is parsed, checked, written and parsed again to the same statistics, or refused
// with an Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ballast/error.h"
#include "ballast/statistics.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ballast;
  try {
    const Statistics statistics = parse_statistics({reinterpret_cast<const char*>(data), size}, "fuzz");
    const std::string once = serialize_statistics(statistics);
    if (serialize_statistics(parse_statistics(once, "written")) != once) __builtin_trap();
  } catch (const Error&) {
  }
  return 0;
}
