// What a reply with tools may be, so that a call has the name of an offered tool and arguments of its schema.
#ifndef BALLAST_TEXT_REPLY_TOOL_CONSTRAINT_H_
#define BALLAST_TEXT_REPLY_TOOL_CONSTRAINT_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "text/reply/offered_tool.h"
#include "text/reply/reply_format.h"
#include "text/tokenizer.h"

namespace ballast::text {

struct ToolChoice {
  enum class Kind : std::uint8_t {
    kAuto,      ///< text, calls or both
    kNone,      ///< no calls
    kRequired,  ///< at least one call and nothing else
    kNamed,     ///< a call of one tool
  };
  Kind kind = Kind::kAuto;
  std::string name{};    ///< of kNamed
  bool parallel = true;  ///< more than one call is possible
};

struct ToolConstraint {
  /// A format of XGrammar's structural tags (the member "format" of one). Null: there is nothing to constrain.
  nlohmann::ordered_json format{};
  /// Whether the format includes the thinking. If not, it begins after it.
  bool has_thinking = false;
  /// The format of calls that may end the thinking, instead of its mark. Null: there are none.
  nlohmann::ordered_json ending_thinking{};
};

/// Returns what a reply may be. The name of a call is always that of an offered tool. Its arguments follow the tool's
/// schema with kRequired, kNamed and for strict tools, otherwise they are only well-formed. `answer`: the format of an
/// answer without calls, such as that of a response's schema; null for any text. With kAuto, formats whose calls have
/// no marks (Llama 3) are not constrained. `thinking_tokens`: the most that thinking may have in a format that includes
/// it, which is then one text. Throws Error if kNamed names no offered tool, or if calls are required of a format that
/// has none.
ToolConstraint tool_constraint(const ReplyFormat& format, const Tokenizer& tokenizer,
                               const std::vector<OfferedTool>& tools, const ToolChoice& choice,
                               const nlohmann::ordered_json& answer = nullptr,
                               std::optional<std::size_t> thinking_tokens = {});

}  // namespace ballast::text

#endif  // BALLAST_TEXT_REPLY_TOOL_CONSTRAINT_H_
