// POST /v1/chat/completions.
#ifndef BALLAST_SERVE_API_CHAT_FORMAT_H_
#define BALLAST_SERVE_API_CHAT_FORMAT_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/api/chat_request.h"
#include "serve/api/openai_format.h"
#include "text/chat/chat_prompt.h"

namespace ballast::serve {

/// Reads messages and the arguments of the chat template, as /apply-template and /tokenize accept them, too. Throws
/// ApiError.
text::Conversation read_conversation(const RequestFields& fields);

/// Reads a conversation whose tools have been read already.
text::Conversation read_conversation(const RequestFields& fields, const ToolFields& tools);

/// Throws ApiError.
ChatRequest read_chat(const RequestFields& fields, const ModelFacts& model);

class ChatFormat : public OpenAiFormat {
 public:
  /// `older_names`: a call is written as `function_call`, not in `tool_calls`.
  ChatFormat(const text::Tokenizer& tokenizer, OpenAiHead head, bool older_names)
      : OpenAiFormat(tokenizer, std::move(head)), older_names_(older_names) {}

 protected:
  std::string_view object() const override { return "chat.completion"; }
  std::string_view event_object() const override { return "chat.completion.chunk"; }
  nlohmann::ordered_json choice_json(const AnswerPiece& choice) override;
  nlohmann::ordered_json piece_json(const AnswerPiece& piece) override;
  nlohmann::ordered_json first_piece(std::size_t choice) const override;
  bool has_prompts_of_choices() const override { return false; }

 private:
  void add_call_piece(const ReplyPart& part, nlohmann::ordered_json& delta) const;
  nlohmann::ordered_json chat_finish_reason(const AnswerPiece& piece);

  bool older_names_;
  std::vector<WholeCalls> calls_;  ///< of each choice of a stream
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_CHAT_FORMAT_H_
