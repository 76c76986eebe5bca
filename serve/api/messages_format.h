// POST /v1/messages: Anthropic's API.
#ifndef BALLAST_SERVE_API_MESSAGES_FORMAT_H_
#define BALLAST_SERVE_API_MESSAGES_FORMAT_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "serve/api/answer_format.h"
#include "serve/api/chat_request.h"

namespace ballast::serve {

/// Throws ApiError. `needs_limit`: max_tokens must be there, as for all requests but those that only count tokens.
ChatRequest read_messages_request(const RequestFields& fields, const ModelFacts& model, bool needs_limit);

/// Writes a message: a list of blocks, each of thinking, text or a call of a tool.
class MessagesFormat : public AnswerFormat {
 public:
  MessagesFormat(std::string model, std::size_t prompt_tokens)
      : id_(random_id("msg_")), model_(std::move(model)), prompt_tokens_(prompt_tokens) {}

  std::string_view heartbeat() const override;
  std::string begin_stream(std::size_t choices) override;
  std::string write_piece(const AnswerPiece& piece) override;
  std::string end_stream(const RequestUsage& usage) override;
  void add_choice(const AnswerPiece& choice, std::string& body) override;
  void end_body(const RequestUsage& usage, std::string& body) override;

 private:
  nlohmann::ordered_json message_json() const;
  void see(const AnswerPiece& piece);
  std::string open_block(const ReplyPart& part);
  std::string close_block();

  std::string id_;
  std::string model_;
  std::size_t prompt_tokens_;
  nlohmann::ordered_json content_ = nlohmann::ordered_json::array();  ///< blocks of a body
  std::optional<ReplyKind> open_;                                     ///< the kind of a stream's open block
  std::size_t blocks_ = 0;                                            ///< that a stream has closed
  WholeCalls calls_;
  std::string stop_reason_ = "end_turn";
  std::optional<std::string> stop_sequence_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_MESSAGES_FORMAT_H_
