// Any bytes are a compiled map of characters: the texts that it makes are UTF-8, or it is refused with an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "ballast/error.h"
#include "files/utf8.h"
#include "text/unicode/charsmap.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const ballast::text::Charsmap map({reinterpret_cast<const char*>(data), size}, "map");
    for (const std::string_view text : {"a", "\xEF\xAC\x81 cafe\xCC\x81\r\n", "abcdefghijklmnopqrstuvwxyz\x01\x7F"}) {
      if (!ballast::files::is_utf8(map.normalize(text))) std::abort();
    }
  } catch (const ballast::Error&) {  // NOLINT(bugprone-empty-catch): most inputs are refused
  }
  return 0;
}
