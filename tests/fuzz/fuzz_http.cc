// Any bytes are the requests of one connection: any division into pieces gives the same requests.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "serve/http/request_parser.h"

namespace {

using namespace ballast::serve;

constexpr std::string_view kMore = "|more";
constexpr std::string_view kRefused = "|refused";

/// Returns what a connection reads if the bytes arrive in pieces of `piece` bytes.
std::string read_in_pieces(std::string_view bytes, std::size_t piece) {
  const HttpLimits limits = {.header_bytes = 1024, .body_bytes = 4096};
  std::string read;
  std::size_t begin = 0;
  std::size_t end = 0;
  for (bool open = true; open;) {
    RequestParser parser(limits);
    while (parser.stage() != RequestParser::Stage::kDone && parser.stage() != RequestParser::Stage::kFailed) {
      const std::size_t used = parser.feed(bytes.substr(begin, end - begin));
      begin += used;
      if (used > 0) continue;
      if (end == bytes.size()) return read + std::string(kMore);
      end = std::min(bytes.size(), end + piece);
    }
    if (parser.stage() == RequestParser::Stage::kFailed) return read + std::string(kRefused);
    open = parser.keep_alive();
    const HttpRequest request = parser.take();
    read += "|" + request.method + " " + request.path + " " + request.body;
    for (const auto& [name, value] : request.headers) read += "\n" + name + ":" + value;
  }
  return read;
}

/// Returns whether both read the same requests. If one waits for more bytes or refuses the next ones, the other may do
/// so earlier or later: the line of a bad chunk is refused once all of it has arrived.
bool agree(std::string_view a, std::string_view b) {
  if (a == b) return true;
  const auto read_before_end = [](std::string_view read) {
    return read.ends_with(kMore) || read.ends_with(kRefused) ? read.substr(0, read.rfind('|')) : read;
  };
  const std::string_view first = read_before_end(a);
  const std::string_view second = read_before_end(b);
  return (first != a && second.starts_with(first)) || (second != b && first.starts_with(second));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = read_in_pieces(bytes, bytes.size() + 1);
  if (!agree(read_in_pieces(bytes, 1), whole) || !agree(read_in_pieces(bytes, 7), whole)) __builtin_trap();
  return 0;
}
