// A piece of a model's output, or a mark, which is hidden.
#ifndef BALLAST_TEXT_REPLY_REPLY_PIECE_H_
#define BALLAST_TEXT_REPLY_REPLY_PIECE_H_

#include <cstddef>
#include <optional>
#include <string>

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

}  // namespace ballast::text

#endif  // BALLAST_TEXT_REPLY_REPLY_PIECE_H_
