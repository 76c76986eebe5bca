// Streams generated text to a reader: it ends before a stop string, of which not even the beginning is shown.
#ifndef BALLAST_TEXT_TEXT_STREAM_H_
#define BALLAST_TEXT_TEXT_STREAM_H_

#include <cstddef>
#include <string>
#include <vector>

#include "text/reply/reply_piece.h"

namespace ballast::text {

/// Takes pieces of a reply and returns the parts that are certain. The reply ends before the first stop string that is
/// complete, the longest of several; the result does not depend on how the text is split into pieces. Hidden pieces
/// (special tokens, marks) may be inside the text: a stop string matches with their text or without it, never a part of
/// one. A stop string may extend from thinking into the answer. Within calls of tools there is none.
class TextStream {
 public:
  /// `show_stop`: shows the stop string that ends the reply. Throws Error if a stop string is empty.
  explicit TextStream(std::vector<std::string> stop_strings, bool show_stop = false);

  /// Adds the text that can be shown after `piece` to `parts`; nothing once stopped. Bytes that may begin a stop string
  /// are held back.
  void push(const ReplyPiece& piece, std::vector<ReplyPart>& parts);

  /// Adds the text that was held back at the end of the reply; nothing once stopped.
  void finish(std::vector<ReplyPart>& parts);

  /// Returns whether a stop string was found.
  bool stopped() const { return stopped_; }

  /// Returns the stop string that was found; empty if there was none.
  const std::string& stop_string() const { return stop_string_; }

 private:
  /// The kind of a byte of pending_.
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
  std::string bytes_;  ///< the kind of each byte of pending_
  bool stopped_ = false;
  std::string stop_string_;
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_TEXT_STREAM_H_
