#include "text/text_stream.h"

#include <algorithm>
#include <utility>

#include "ballast/error.h"

namespace ballast::text {

TextStream::TextStream(std::vector<std::string> stop_strings) : stop_strings_(std::move(stop_strings)) {
  for (const std::string& stop : stop_strings_) {
    if (stop.empty()) throw Error("stop string", "is empty; give the text to stop at");
  }
}

std::string TextStream::push(std::string_view piece) {
  if (stopped_) return {};
  pending_ += piece;

  std::size_t first_end = std::string::npos;
  std::size_t cut = std::string::npos;
  for (const std::string& stop : stop_strings_) {
    const std::size_t start = pending_.find(stop);
    if (start == std::string::npos) continue;
    const std::size_t end = start + stop.size();
    if (end < first_end || (end == first_end && start < cut)) {
      first_end = end;
      cut = start;
    }
  }
  stopped_ = cut != std::string::npos;
  if (!stopped_) cut = possible_beginning();

  std::string certain = pending_.substr(0, cut);
  pending_.erase(0, stopped_ ? std::string::npos : cut);
  return certain;
}

std::string TextStream::finish() {
  return std::exchange(pending_, {});
}

// Where the longest suffix of the pending text starts that is the beginning of a stop string.
std::size_t TextStream::possible_beginning() const {
  std::size_t longest = 0;
  for (const std::string& stop : stop_strings_) {
    for (std::size_t length = std::min(stop.size() - 1, pending_.size()); length > longest; --length) {
      if (std::string_view(pending_).ends_with(std::string_view(stop).substr(0, length))) longest = length;
    }
  }
  return pending_.size() - longest;
}

}  // namespace ballast::text
