// POST /v1/responses: OpenAI's API of items.
#ifndef BALLAST_SERVE_API_RESPONSES_FORMAT_H_
#define BALLAST_SERVE_API_RESPONSES_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "serve/api/answer_format.h"
#include "serve/api/chat_request.h"
#include "serve/api/response_tools.h"
#include "text/tokenizer.h"

namespace ballast::serve {

struct ResponsesRequest {
  ChatRequest chat;
  ResponseToolMap tools{};
  nlohmann::ordered_json head;      ///< the response before its answer: its id and the request's options
  nlohmann::ordered_json messages;  ///< the conversation without instructions, which a next request may continue
  bool is_stored = true;
};

/// `earlier`: the messages of the response that the request continues, or an empty list. Throws ApiError.
ResponsesRequest read_responses_request(const RequestFields& fields, const ModelFacts& model,
                                        const std::string& model_name, const nlohmann::ordered_json& earlier);

/// Writes a response: a list of items, each of thinking, a message or a call of a tool.
class ResponsesFormat : public AnswerFormat {
 public:
  /// Is called with the whole response, and with the answer as a message of a conversation.
  using OnDone = std::function<void(const nlohmann::ordered_json& response, const nlohmann::ordered_json& message)>;

  /// `tokenizer`: for log-probabilities, and must outlive this object; null: there are none.
  ResponsesFormat(nlohmann::ordered_json head, ResponseToolMap tools, OnDone on_done,
                  const text::Tokenizer* tokenizer = nullptr);

  std::string begin_stream(std::size_t choices) override;
  std::string write_piece(const AnswerPiece& piece) override;
  std::string end_stream(const RequestUsage& usage) override;
  void add_choice(const AnswerPiece& choice, std::string& body) override;
  void end_body(const RequestUsage& usage, std::string& body) override;

 private:
  std::string event(std::string_view name, const nlohmann::ordered_json& data);
  nlohmann::ordered_json call_item(const std::string& function);
  std::string open_item(const ReplyPart& part);
  std::string end_call(const nlohmann::ordered_json& where);
  std::string close_item(bool complete);
  std::string drop_call();
  nlohmann::ordered_json logprobs_json(std::span<const GeneratedToken> tokens) const;
  nlohmann::ordered_json finished(const RequestUsage& usage);

  nlohmann::ordered_json response_;
  ResponseToolMap tools_;
  OnDone on_done_;
  const text::Tokenizer* tokenizer_;
  nlohmann::ordered_json message_;                                     ///< the answer as a message
  nlohmann::ordered_json item_;                                        ///< the open item; null: none
  std::string text_;                                                   ///< of the open item
  nlohmann::ordered_json logprobs_ = nlohmann::ordered_json::array();  ///< of the open item's tokens
  std::optional<ReplyKind> kind_;                                      ///< of the open item
  std::string function_;                                               ///< of the open or last call
  bool takes_text_ = false;                                            ///< the tool of that call
  std::size_t items_ = 0;    ///< that are closed, calls that turned out to be none included
  bool ends_early_ = false;  ///< at the limit of its tokens
  std::uint64_t events_ = 0;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_RESPONSES_FORMAT_H_
