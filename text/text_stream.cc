#include "text/text_stream.h"

#include <algorithm>
#include <utility>

#include "ballast/error.h"

namespace ballast::text {

TextStream::TextStream(std::vector<std::string> stop_strings, bool show_stop)
    : stop_strings_(std::move(stop_strings)), show_stop_(show_stop) {
  for (const std::string& stop : stop_strings_) {
    if (stop.empty()) throw Error("stop string", "is empty; give the text to stop at");
  }
}

std::string TextStream::push(std::string_view piece, Kind kind) {
  if (stopped_ || piece.empty()) return {};
  if (stop_strings_.empty()) return kind == Kind::kShown ? std::string(piece) : std::string();
  bytes_.append(piece.size(), kind == Kind::kShown ? kShown : kRestOfSpecial);
  if (kind == Kind::kSpecial) bytes_[pending_.size()] = kFirstOfSpecial;
  pending_ += piece;

  const Match match = find_stop();
  stopped_ = match.stop != nullptr;
  const std::size_t cut = stopped_ ? match.begin : possible_beginning();
  std::string certain = shown(0, cut);
  if (stopped_ && show_stop_) certain += *match.stop;
  const std::size_t gone = stopped_ ? std::string::npos : cut;
  pending_.erase(0, gone);
  bytes_.erase(0, gone);
  return certain;
}

std::string TextStream::finish() {
  std::string text = shown(0, pending_.size());
  pending_.clear();
  bytes_.clear();
  return text;
}

bool TextStream::has_special() const {
  return bytes_.find_first_not_of(char{kShown}) != std::string::npos;
}

/// Whether a stop string may begin or end before the byte `place`: no special token is divided there.
bool TextStream::is_boundary(std::size_t place) const {
  return place == bytes_.size() || bytes_[place] != kRestOfSpecial;
}

/// The shown bytes of a part of the pending text.
std::string TextStream::shown(std::size_t begin, std::size_t end) const {
  std::string text;
  for (std::size_t i = begin; i < end; ++i) {
    if (bytes_[i] == kShown) text += pending_[i];
  }
  return text;
}

/// Where in the pending text each of its shown bytes is.
std::vector<std::size_t> TextStream::shown_places() const {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    if (bytes_[i] == kShown) places.push_back(i);
  }
  return places;
}

/// The stop string that is complete first, of those the longest. Its end is npos where there is none.
TextStream::Match TextStream::find_stop() const {
  Match first;
  const bool special = has_special();
  const std::string text = special ? shown(0, pending_.size()) : std::string();
  const std::vector<std::size_t> places = special ? shown_places() : std::vector<std::size_t>();
  for (const std::string& stop : stop_strings_) {
    std::size_t begin = (special ? text : pending_).find(stop);
    if (begin != std::string::npos) {
      std::size_t end = begin + stop.size();
      if (special) {
        end = places[end - 1] + 1;
        begin = places[begin];
      }
      if (end < first.end || (end == first.end && begin < first.begin)) first = {begin, end, &stop};
    }
    if (special) find_with_special(stop, first);
  }
  return first;
}

/// Where `stop` is complete earlier than `first` with the text of special tokens, makes that the first.
void TextStream::find_with_special(const std::string& stop, Match& first) const {
  for (std::size_t begin = pending_.find(stop); begin != std::string::npos; begin = pending_.find(stop, begin + 1)) {
    const std::size_t end = begin + stop.size();
    if (end > first.end || (end == first.end && begin >= first.begin)) return;
    if (is_boundary(begin) && is_boundary(end)) {
      first = {begin, end, &stop};
      return;
    }
  }
}

/// Where the longest suffix of the pending text starts that is the beginning of a stop string, with the special tokens
/// in it or without them.
std::size_t TextStream::possible_beginning() const {
  const bool special = has_special();
  const std::string only_shown = special ? shown(0, pending_.size()) : std::string();
  const std::string& text = special ? only_shown : pending_;
  std::size_t longest = 0;
  std::size_t begin = pending_.size();
  for (const std::string& stop : stop_strings_) {
    for (std::size_t length = std::min(stop.size() - 1, text.size()); length > longest; --length) {
      if (std::string_view(text).ends_with(std::string_view(stop).substr(0, length))) longest = length;
    }
    if (!special) continue;
    for (std::size_t length = std::min(stop.size() - 1, pending_.size()); length > pending_.size() - begin; --length) {
      const std::size_t start = pending_.size() - length;
      if (is_boundary(start) && std::string_view(pending_).ends_with(std::string_view(stop).substr(0, length))) {
        begin = start;
      }
    }
  }
  if (longest == 0) return begin;
  return std::min(begin, special ? shown_places()[text.size() - longest] : text.size() - longest);
}

}  // namespace ballast::text
