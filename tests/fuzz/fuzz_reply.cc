// A byte for the format, a byte for whether its marks are special tokens, and the text of a model: thinking, answer and
// calls are the same for any division of the text, with stop strings, too, and the arguments of a call are JSON.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "../support/reply_pieces.h"
#include "../support/tiny_tokenizer.h"
#include "text/reply/argument_values.h"
#include "text/reply/offered_tool.h"
#include "text/reply/reply_format.h"
#include "text/reply/reply_parser.h"
#include "text/text_stream.h"
#include "text/tokenizer.h"

namespace {

using namespace ballast::text;

void check(bool holds) {
  if (!holds) __builtin_trap();
}

/// Returns the texts of a format that may be special tokens.
std::vector<std::string> marks_of(const ReplyFormat& format) {
  std::vector<std::string> marks;
  for (const ReplyMark& mark : format.marks) marks.emplace_back(mark.text);
  for (const CallSyntax& call : format.calls) {
    marks.emplace_back(call.after_arguments);
    marks.emplace_back(call.close);
    marks.emplace_back(call.next);
    marks.emplace_back(call.parameters.close);
    marks.emplace_back(R"(<|"|>)");
    for (const std::string_view mark : call.after_name) marks.emplace_back(mark);
  }
  for (std::string& mark : marks) std::erase(mark, '\n');
  std::erase_if(marks, [](const std::string& mark) { return mark.size() < 2; });
  return marks;
}

/// Returns a tokenizer with the marks of all formats as special tokens, or with none.
std::unique_ptr<Tokenizer> make_tokenizer(bool special) {
  nlohmann::json json = ballast::test::tiny_tokenizer_json();
  json["added_tokens"].clear();
  int id = 261;
  std::set<std::string> added;
  for (const ReplyFormat& format : reply_formats()) {
    for (const std::string& mark : marks_of(format)) {
      if (!special || !added.insert(mark).second) continue;
      json["added_tokens"].push_back({{"id", id++}, {"content", mark}, {"special", true}, {"normalized", false}});
    }
  }
  return ballast::test::make_tiny_tokenizer(json);
}

std::vector<OfferedTool> offered_tools() {
  return read_tools(parse_tools(R"([{"name": "f", "parameters": {"properties": {"a": {"type": "string"}, "b":
    {"type": "integer"}, "c": {"type": ["string", "null", "object"]}}}}, {"name": "g"}])"));
}

/// Checks that calls have names and whole arguments.
void check_calls(const std::vector<ballast::ReplyPart>& parts) {
  using ballast::ReplyKind;
  std::string arguments;
  bool in_call = false;
  std::size_t calls = 0;
  for (const ballast::ReplyPart& part : parts) {
    const bool goes_on = part.kind == ReplyKind::kToolArguments || part.kind == ReplyKind::kBrokenCall;
    check(!goes_on || (in_call && part.call + 1 == calls));
    if (in_call && !goes_on) check(is_json_object(arguments));
    if (!goes_on) arguments.clear();
    if (part.kind == ReplyKind::kToolArguments) arguments += part.text;
    in_call = part.kind == ReplyKind::kToolName || part.kind == ReplyKind::kToolArguments;
    if (part.kind == ReplyKind::kToolName) check(part.call == calls++);
  }
  check(!in_call || is_json_object(arguments));
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
  static const std::vector<OfferedTool> tools = offered_tools();
  const ReplyParser parser(format, tokenizer, data[1] % 4 < 2 ? tools : std::vector<OfferedTool>());
  const std::vector<ReplyPiece> whole = ballast::test::reply_pieces(parser, tokenizer, ids, written.size() + 1);
  const std::vector<ballast::ReplyPart> parts = shown(whole, {});
  for (std::size_t i = 1; i < parts.size(); ++i) {
    check((parts[i].kind != parts[i - 1].kind || parts[i].call != parts[i - 1].call) && !parts[i].text.empty());
  }
  check_calls(parts);
  for (std::size_t piece_size = 1; piece_size < 8; ++piece_size) {
    const std::vector<ReplyPiece> pieces = ballast::test::reply_pieces(parser, tokenizer, ids, piece_size);
    check(shown(pieces, {}) == parts);
    check(shown(pieces, {"b", "</think>", "\n\n"}) == shown(whole, {"b", "</think>", "\n\n"}));
  }
  return 0;
}
