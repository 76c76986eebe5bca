#include "text/text_stream.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "ballast/error.h"

namespace ballast::text {

TextStream::TextStream(std::vector<std::string> stop_strings, bool show_stop)
    : stop_strings_(std::move(stop_strings)), show_stop_(show_stop) {
  for (const std::string& stop : stop_strings_) {
    if (stop.empty()) throw Error("stop string", "is empty; give the text to stop at");
  }
}

void TextStream::push(const ReplyPiece& piece, std::vector<ReplyPart>& parts) {
  if (stopped_ || piece.text.empty()) return;
  if (piece.kind && is_of_call(*piece.kind)) {
    finish(parts);
    return add_part(piece.text, *piece.kind, parts, piece.call);
  }
  if (stop_strings_.empty()) {
    if (piece.kind) add_part(piece.text, *piece.kind, parts);
    return;
  }
  const Byte kind = !piece.kind ? kRestOfHidden : *piece.kind == ReplyKind::kThinking ? kOfThinking : kOfAnswer;
  bytes_.append(piece.text.size(), kind);
  if (!piece.kind) bytes_[pending_.size()] = kFirstOfHidden;
  pending_ += piece.text;

  const Match match = find_stop();
  stopped_ = match.stop != nullptr;
  if (stopped_) stop_string_ = *match.stop;
  const std::size_t cut = stopped_ ? match.begin : possible_beginning();
  show(cut, parts);
  if (stopped_ && show_stop_) {
    add_part(*match.stop, bytes_[match.end - 1] == kOfThinking ? ReplyKind::kThinking : ReplyKind::kAnswer, parts);
  }
  const std::size_t gone = stopped_ ? std::string::npos : cut;
  pending_.erase(0, gone);
  bytes_.erase(0, gone);
}

void TextStream::finish(std::vector<ReplyPart>& parts) {
  show(pending_.size(), parts);
  pending_.clear();
  bytes_.clear();
}

bool TextStream::has_hidden() const {
  return bytes_.find_first_of({char{kFirstOfHidden}, char{kRestOfHidden}}) != std::string::npos;
}

/// Returns whether a stop string may begin or end before the byte `place`: not inside a hidden piece.
bool TextStream::is_boundary(std::size_t place) const {
  return place == bytes_.size() || bytes_[place] != kRestOfHidden;
}

/// Adds the shown bytes of the first `size` pending ones.
void TextStream::show(std::size_t size, std::vector<ReplyPart>& parts) const {
  for (std::size_t begin = 0; begin < size;) {
    const std::size_t end = std::min(bytes_.find_first_not_of(bytes_[begin], begin), size);
    if (is_shown(begin)) {
      const ReplyKind kind = bytes_[begin] == kOfThinking ? ReplyKind::kThinking : ReplyKind::kAnswer;
      add_part(std::string_view(pending_).substr(begin, end - begin), kind, parts);
    }
    begin = end;
  }
}

std::string TextStream::shown_text() const {
  std::string text;
  for (const std::size_t place : shown_places()) text += pending_[place];
  return text;
}

/// Returns the position of each shown byte in the pending text.
std::vector<std::size_t> TextStream::shown_places() const {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    if (is_shown(i)) places.push_back(i);
  }
  return places;
}

/// Returns the first complete stop string, of several the longest. Its end is npos if there is none.
TextStream::Match TextStream::find_stop() const {
  Match first;
  const bool hidden = has_hidden();
  const std::string text = hidden ? shown_text() : std::string();
  const std::vector<std::size_t> places = hidden ? shown_places() : std::vector<std::size_t>();
  for (const std::string& stop : stop_strings_) {
    std::size_t begin = (hidden ? text : pending_).find(stop);
    if (begin != std::string::npos) {
      std::size_t end = begin + stop.size();
      if (hidden) {
        end = places[end - 1] + 1;
        begin = places[begin];
      }
      if (end < first.end || (end == first.end && begin < first.begin)) first = {begin, end, &stop};
    }
    if (hidden) find_with_hidden(stop, first);
  }
  return first;
}

/// If `stop` is complete earlier than `first` when hidden pieces are included, replaces `first`.
void TextStream::find_with_hidden(const std::string& stop, Match& first) const {
  for (std::size_t begin = pending_.find(stop); begin != std::string::npos; begin = pending_.find(stop, begin + 1)) {
    const std::size_t end = begin + stop.size();
    if (end > first.end || (end == first.end && begin >= first.begin)) return;
    if (is_boundary(begin) && is_boundary(end)) {
      first = {begin, end, &stop};
      return;
    }
  }
}

/// Returns the start of the longest suffix of the pending text that is the beginning of a stop string, with or without
/// hidden pieces.
std::size_t TextStream::possible_beginning() const {
  const bool hidden = has_hidden();
  const std::string only_shown = hidden ? shown_text() : std::string();
  const std::string& text = hidden ? only_shown : pending_;
  std::size_t longest = 0;
  std::size_t begin = pending_.size();
  for (const std::string& stop : stop_strings_) {
    for (std::size_t length = std::min(stop.size() - 1, text.size()); length > longest; --length) {
      if (std::string_view(text).ends_with(std::string_view(stop).substr(0, length))) longest = length;
    }
    if (!hidden) continue;
    for (std::size_t length = std::min(stop.size() - 1, pending_.size()); length > pending_.size() - begin; --length) {
      const std::size_t start = pending_.size() - length;
      if (is_boundary(start) && std::string_view(pending_).ends_with(std::string_view(stop).substr(0, length))) {
        begin = start;
      }
    }
  }
  if (longest == 0) return begin;
  return std::min(begin, hidden ? shown_places()[text.size() - longest] : text.size() - longest);
}

}  // namespace ballast::text
