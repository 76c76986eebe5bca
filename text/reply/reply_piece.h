// A piece of a model's output, or a mark, which is hidden.
#ifndef BALLAST_TEXT_REPLY_REPLY_PIECE_H_
#define BALLAST_TEXT_REPLY_REPLY_PIECE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/chat.h"

namespace ballast::text {

struct ReplyPiece {
  std::string text;
  std::optional<ReplyKind> kind;  ///< empty for a mark or a special token
  std::size_t call = 0;           ///< ReplyPart::call

  bool operator==(const ReplyPiece&) const = default;
};

/// Returns whether text of this kind is a part of a call.
constexpr bool is_of_call(ReplyKind kind) {
  return kind != ReplyKind::kAnswer && kind != ReplyKind::kThinking;
}

/// Adds text to the parts of a reply: it continues the last part if that is of the same kind and call.
inline void add_part(std::string_view text, ReplyKind kind, std::vector<ReplyPart>& parts, std::size_t call = 0) {
  if (parts.empty() || parts.back().kind != kind || parts.back().call != call) {
    parts.push_back({.kind = kind, .text = {}, .call = call});
  }
  parts.back().text += text;
}

}  // namespace ballast::text

#endif  // BALLAST_TEXT_REPLY_REPLY_PIECE_H_
