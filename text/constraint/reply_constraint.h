// Constraints of answers in replies that may think first.
#ifndef BALLAST_TEXT_CONSTRAINT_REPLY_CONSTRAINT_H_
#define BALLAST_TEXT_CONSTRAINT_REPLY_CONSTRAINT_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>

#include "ballast/constraint.h"
#include "text/reply/reply_format.h"
#include "text/tokenizer.h"

namespace ballast::text {

/// Returns the constraint of a whole reply: what the format writes before the answer (thinking, headers of messages) is
/// allowed as the model usually writes it, thinking with any text, then follows `answer`. `state` is that at the end of
/// the prompt: thinking that the prompt opened is continued; a reply that begins may think or not. Returns `answer`
/// itself if nothing can come before it. `thinking_tokens`: the most that each text of thinking may have, then its end
/// mark follows; it works without a constraint of the answer, too; messages of thinking (gpt-oss) are then one.
/// `ending_thinking`: ToolConstraint's. Throws Error and UnsupportedError as
/// ConstraintCompiler::compile().
Constraint constrain_reply(const Constraint& answer, const ReplyFormat& format, ReplyState state,
                           const Tokenizer& tokenizer, std::optional<std::size_t> thinking_tokens = {},
                           const nlohmann::ordered_json& ending_thinking = nullptr);

}  // namespace ballast::text

#endif  // BALLAST_TEXT_CONSTRAINT_REPLY_CONSTRAINT_H_
