// Gives a model's text to the parser of replies in pieces of any size.
#ifndef BALLAST_TESTS_SUPPORT_REPLY_PIECES_H_
#define BALLAST_TESTS_SUPPORT_REPLY_PIECES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "text/reply/reply_parser.h"
#include "text/tokenizer.h"

namespace ballast::test {

/// Returns the pieces that `parser` makes of `ids`: special tokens are pushed as such, all other text in pieces of
/// `size` bytes.
inline std::vector<text::ReplyPiece> reply_pieces(text::ReplyParser parser, const text::Tokenizer& tokenizer,
                                                  const std::vector<int>& ids, std::size_t size) {
  std::vector<text::ReplyPiece> pieces;
  std::string text;
  const auto push_text = [&] {
    for (std::size_t begin = 0; begin < text.size(); begin += size) parser.push(text.substr(begin, size), pieces);
    text.clear();
  };
  for (const int id : ids) {
    if (!tokenizer.is_special(id)) {
      text += tokenizer.token_bytes(id);
      continue;
    }
    push_text();
    parser.push_special(id, tokenizer.token_bytes(id), pieces);
  }
  push_text();
  parser.finish(pieces);
  return pieces;
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_REPLY_PIECES_H_
