// Generated text on its way to a reader: it ends before a stop string, of which not even the beginning may be shown.
#ifndef BALLAST_TEXT_TEXT_STREAM_H_
#define BALLAST_TEXT_TEXT_STREAM_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::text {

/// Pieces of text in, the pieces that are certain out. The text ends before the first stop string to become complete,
/// the longest where several do at once; how the text was cut into pieces makes no difference. Special tokens may lie
/// within the text without being shown: a stop string matches with their text or without it, never a part of one.
class TextStream {
 public:
  /// `show_stop`: the stop string that ends the text is shown. Throws Error when a stop string is empty.
  explicit TextStream(std::vector<std::string> stop_strings, bool show_stop = false);

  /// What can be shown now that `piece` has come; nothing once stopped. Bytes that may begin a stop string are held
  /// back.
  std::string push(std::string_view piece) { return push(piece, Kind::kShown); }

  /// The same for a special token that is not shown.
  std::string push_special(std::string_view token) { return push(token, Kind::kSpecial); }

  /// What was held back, at the end of the text; nothing once stopped.
  std::string finish();

  /// Whether a stop string was met.
  bool stopped() const { return stopped_; }

 private:
  enum class Kind { kShown, kSpecial };

  /// What a byte of pending_ is.
  enum Byte : char { kShown, kFirstOfSpecial, kRestOfSpecial };

  /// A stop string in pending_.
  struct Match {
    std::size_t begin = 0;
    std::size_t end = std::string::npos;
    const std::string* stop = nullptr;
  };

  std::string push(std::string_view piece, Kind kind);
  bool has_special() const;
  bool is_boundary(std::size_t place) const;
  Match find_stop() const;
  void find_with_special(const std::string& stop, Match& first) const;
  std::size_t possible_beginning() const;
  std::string shown(std::size_t begin, std::size_t end) const;
  std::vector<std::size_t> shown_places() const;

  std::vector<std::string> stop_strings_;
  bool show_stop_;
  std::string pending_;
  std::string bytes_;  ///< of each byte of pending_, the Byte
  bool stopped_ = false;
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_TEXT_STREAM_H_
