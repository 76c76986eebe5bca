// How an API writes a text answer, as one body or as a stream: one implementation for each API.
#ifndef BALLAST_SERVE_API_ANSWER_FORMAT_H_
#define BALLAST_SERVE_API_ANSWER_FORMAT_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/generate.h"
#include "serve/scheduler/request.h"

namespace ballast::serve {

/// A piece of a choice: of a stream, or the whole choice. Views are valid during the call.
struct AnswerPiece {
  std::size_t choice = 0;
  std::span<const ReplyPart> parts{};
  std::span<const GeneratedToken> tokens{};  ///< with log-probabilities only
  /// How many of the tokens belong to each part. Those that are left come before the first part: they belong to the
  /// last part of earlier pieces.
  std::span<const std::size_t> part_tokens{};
  std::span<const std::size_t> text_offsets{};      ///< the beginning of each token in the choice, in code points
  std::span<const GeneratedToken> prompt_scores{};  ///< of all tokens of the prompt but the first; whole choices only
  std::optional<ChoiceEnd> end{};                   ///< of the choice, with its last piece
};

/// Writes one answer, whose methods are called in the order of the text. Returned text is sent as it is.
class AnswerFormat {
 public:
  AnswerFormat() = default;
  virtual ~AnswerFormat() = default;
  AnswerFormat(const AnswerFormat&) = delete;
  AnswerFormat& operator=(const AnswerFormat&) = delete;

  /// The content type of a stream.
  virtual std::string_view stream_type() const { return "text/event-stream"; }

  /// What keeps a stream alive while a prompt is read: a comment, unless the API has an event for it. Must not depend
  /// on the answer.
  virtual std::string_view heartbeat() const { return ": reading\n\n"; }

  virtual std::string begin_stream(std::size_t choices) = 0;
  virtual std::string write_piece(const AnswerPiece& piece) = 0;
  virtual std::string end_stream(const RequestUsage& usage) = 0;

  /// Adds a whole choice to the body, which is empty before the first one.
  virtual void add_choice(const AnswerPiece& choice, std::string& body) = 0;
  virtual void end_body(const RequestUsage& usage, std::string& body) = 0;
};

/// The parts of a reply, and how many tokens belong to each.
struct CountedParts {
  std::vector<ReplyPart> parts{};
  std::vector<std::size_t> tokens{};

  bool operator==(const CountedParts&) const = default;
};

/// Returns the parts of a whole reply with answer text in the place of broken calls.
CountedParts with_whole_calls(CountedParts reply);

/// Returns the calls in parts of a reply; arguments may be incomplete.
std::vector<ToolCall> tool_calls(std::span<const ReplyPart> parts);

/// Returns the kind of the text or call that a part belongs to: kToolName for all parts of a call, and kAnswer for the
/// text of a broken one.
ReplyKind item_kind(ReplyKind kind);

/// Counts the calls of a streamed reply that are not broken.
class WholeCalls {
 public:
  void see(std::span<const ReplyPart> parts);
  bool any() const { return count_ > 0; }

 private:
  std::size_t count_ = 0;
};

/// Returns the joined text of the parts of one kind. The text of a broken call is a part of the answer.
std::string joined_text(std::span<const ReplyPart> parts, ReplyKind kind);

/// Returns a random id that cannot be guessed: the prefix and 24 digits.
std::string random_id(std::string_view prefix);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_ANSWER_FORMAT_H_
