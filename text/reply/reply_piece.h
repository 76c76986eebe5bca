// A piece of a model's output, or a mark, which is hidden.
#ifndef BALLAST_TEXT_REPLY_REPLY_PIECE_H_
#define BALLAST_TEXT_REPLY_REPLY_PIECE_H_

#include <optional>
#include <string>

#include "ballast/chat.h"

namespace ballast::text {

struct ReplyPiece {
  std::string text;
  std::optional<ReplyKind> kind;  ///< empty for a mark or a special token

  bool operator==(const ReplyPiece&) const = default;
};

}  // namespace ballast::text

#endif  // BALLAST_TEXT_REPLY_REPLY_PIECE_H_
