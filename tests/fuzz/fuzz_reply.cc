// A byte that names a format, a byte that says whether its marks are special tokens, and what a model writes: thinking
// and answer are the same however the text is cut, with stop strings, too.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../support/reply_pieces.h"
#include "../support/tiny_tokenizer.h"
#include "text/reply/reply_format.h"
#include "text/reply/reply_parser.h"
#include "text/text_stream.h"
#include "text/tokenizer.h"

namespace {

using namespace ballast::text;

void check(bool holds) {
  if (!holds) __builtin_trap();
}

/// With the marks of all formats as special tokens, or with none.
std::unique_ptr<Tokenizer> make_tokenizer(bool special) {
  nlohmann::json json = ballast::test::tiny_tokenizer_json();
  json["added_tokens"].clear();
  int id = 261;
  for (const ReplyFormat& format : reply_formats()) {
    for (const ReplyMark& mark : format.marks) {
      if (special && mark.text.size() > 1) {
        json["added_tokens"].push_back(
            {{"id", id++}, {"content", mark.text}, {"special", true}, {"normalized", false}});
      }
    }
  }
  return ballast::test::make_tiny_tokenizer(json);
}

std::vector<ballast::ReplyPart> shown(const std::vector<ReplyPiece>& pieces, const std::vector<std::string>& stops) {
  TextStream stream(stops);
  std::vector<ballast::ReplyPart> parts;
  for (const ReplyPiece& piece : pieces) stream.push(piece, parts);
  stream.finish(parts);
  return parts;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::unique_ptr<Tokenizer> plain = make_tokenizer(false);
  static const std::unique_ptr<Tokenizer> with_marks = make_tokenizer(true);
  if (size < 2 || size > 4096) return 0;
  const ReplyFormat& format = reply_formats()[data[0] % reply_formats().size()];
  const Tokenizer& tokenizer = data[1] % 2 == 0 ? *plain : *with_marks;
  const std::string_view written(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::vector<int> ids = tokenizer.encode(written);
  const ReplyParser parser(format, tokenizer);
  const std::vector<ReplyPiece> whole = ballast::test::reply_pieces(parser, tokenizer, ids, written.size() + 1);
  const std::vector<ballast::ReplyPart> parts = shown(whole, {});
  for (std::size_t i = 1; i < parts.size(); ++i) check(parts[i].kind != parts[i - 1].kind && !parts[i].text.empty());
  for (std::size_t piece_size = 1; piece_size < 8; ++piece_size) {
    const std::vector<ReplyPiece> pieces = ballast::test::reply_pieces(parser, tokenizer, ids, piece_size);
    check(shown(pieces, {}) == parts);
    check(shown(pieces, {"b", "</think>", "\n\n"}) == shown(whole, {"b", "</think>", "\n\n"}));
  }
  return 0;
}
