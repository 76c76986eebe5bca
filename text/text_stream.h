// Generated text on its way to a reader: it ends before a stop string, of which not even the beginning may be shown.
#ifndef BALLAST_TEXT_TEXT_STREAM_H_
#define BALLAST_TEXT_TEXT_STREAM_H_

#include <cstddef>
#include <string>
#include <vector>

#include "text/reply/reply_piece.h"

namespace ballast::text {

/// Pieces of a reply in, the parts that are certain out. The reply ends before the first stop string to become
/// complete, the longest where several do at once; how the text was cut into pieces makes no difference. Hidden pieces
/// (special tokens, marks) may lie within the text: a stop string matches with their text or without it, never a part
/// of one. A stop string may reach from thinking into the answer.
class TextStream {
 public:
  /// `show_stop`: the stop string that ends the reply is shown. Throws Error when a stop string is empty.
  explicit TextStream(std::vector<std::string> stop_strings, bool show_stop = false);

  /// Adds to `parts` what can be shown now that `piece` has come; nothing once stopped. Bytes that may begin a stop
  /// string are held back.
  void push(const ReplyPiece& piece, std::vector<ReplyPart>& parts);

  /// Adds what was held back, at the end of the reply; nothing once stopped.
  void finish(std::vector<ReplyPart>& parts);

  /// Whether a stop string was met.
  bool stopped() const { return stopped_; }

 private:
  /// What a byte of pending_ is.
  enum Byte : char { kOfAnswer, kOfThinking, kFirstOfHidden, kRestOfHidden };

  /// A stop string in pending_.
  struct Match {
    std::size_t begin = 0;
    std::size_t end = std::string::npos;
    const std::string* stop = nullptr;
  };

  bool is_shown(std::size_t place) const { return bytes_[place] == kOfAnswer || bytes_[place] == kOfThinking; }
  bool has_hidden() const;
  bool is_boundary(std::size_t place) const;
  Match find_stop() const;
  void find_with_hidden(const std::string& stop, Match& first) const;
  std::size_t possible_beginning() const;
  std::string shown_text() const;
  std::vector<std::size_t> shown_places() const;
  void show(std::size_t size, std::vector<ReplyPart>& parts) const;

  std::vector<std::string> stop_strings_;
  bool show_stop_;
  std::string pending_;
  std::string bytes_;  ///< of each byte of pending_, the Byte
  bool stopped_ = false;
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_TEXT_STREAM_H_
