// Generated text on its way to a reader: it ends before a stop string, of which not even the beginning may be shown.
#ifndef BALLAST_TEXT_TEXT_STREAM_H_
#define BALLAST_TEXT_TEXT_STREAM_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::text {

/// Pieces of text in, the pieces that are certain out. The text ends before the first stop string to become complete,
/// the longest where several do at once; how the text was cut into pieces makes no difference.
class TextStream {
 public:
  /// Throws Error when a stop string is empty.
  explicit TextStream(std::vector<std::string> stop_strings);

  /// What can be shown now that `piece` has come; nothing once stopped. Bytes that may begin a stop string are held
  /// back.
  std::string push(std::string_view piece);

  /// What was held back, at the end of the text; nothing once stopped.
  std::string finish();

  /// Whether a stop string was met.
  bool stopped() const { return stopped_; }

 private:
  std::size_t possible_beginning() const;

  std::vector<std::string> stop_strings_;
  std::string pending_;
  bool stopped_ = false;
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_TEXT_STREAM_H_
