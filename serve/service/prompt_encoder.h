// Turns the texts and conversations of requests into prompts of a model.
#ifndef BALLAST_SERVE_SERVICE_PROMPT_ENCODER_H_
#define BALLAST_SERVE_SERVICE_PROMPT_ENCODER_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text_runner.h"
#include "serve/api/chat_request.h"
#include "serve/api/completion_format.h"
#include "serve/api/generation_fields.h"
#include "serve/service/ready_model.h"
#include "text/infill.h"

namespace ballast::serve {

/// All methods throw ApiError. The model must outlive this object.
class PromptEncoder {
 public:
  /// `most_tokenized`: tokens of a text that is only counted, or cut.
  PromptEncoder(const ReadyModel& model, std::size_t most_tokenized) : model_(model), most_tokenized_(most_tokenized) {}

  const text::Tokenizer& tokenizer() const;

  /// Returns what requests are read with.
  ModelFacts facts() const;

  /// Applies the chat template.
  text::ChatPrompt apply(const text::Conversation& conversation) const;

  /// Encodes a prompt, and cuts it to `kept` tokens.
  std::vector<int> encode(const Prompt& prompt, const PromptOptions& options, std::size_t kept) const;

  /// Sets the source text of a request to a model with an encoder, and the beginning of the written text.
  void set_source(const Prompt& prompt, GenerationRequest& request) const;

  /// Encodes two texts that are read together, and cuts them to `kept` tokens, the longer one first.
  engine::EncodedText encode_pair(const TextPair& pair, std::size_t kept) const;

  /// Sets the prompt of a conversation, how its answer is parsed, and what the answer must match.
  void set_chat_prompt(ChatRequest& asked) const;

  /// Sets the prompt of a gap, and the tokens that end its text.
  void set_infill_prompt(const text::InfillRequest& gap, GenerationRequest& request) const;

  /// Returns the tokens of a conversation.
  std::vector<int> count(const text::Conversation& conversation) const;

  /// Reads a text for /tokenize: vLLM's names of the fields, or llama-server's.
  std::vector<int> tokens_of(const RequestFields& fields) const;

  /// Refuses more ids than may be tokenized at once.
  void check_tokenized(const std::vector<int>& ids, std::string_view whose) const;

  /// Returns the length to which truncate_prompt_tokens cuts a prompt.
  std::size_t most_prompt_tokens(const PromptOptions& options, const AnswerLimit& limit) const;

  /// Sets max_tokens, `usual` if the request has no limit, and refuses lengths that cannot be generated.
  /// `may_be_empty`: max_tokens 0 is allowed, for scores of the prompt.
  void check_lengths(GenerationRequest& request, const AnswerLimit& limit, std::size_t usual, bool may_be_empty) const;

  void forbid_words(const RequestFields& fields, GenerationRequest& request) const;

  /// Compiles a constraint, which the engine then has at once, or refuses it, naming the field that has it.
  void compile(const Constraint& constraint, const std::string& field) const;

 private:
  /// The allowed number of tokens of a text, and its name in errors. Longer texts are refused or cut.
  struct TokenLimit {
    std::size_t most;
    std::string_view whose;
    bool refuses = true;
  };

  std::string_view reply_format_of(const text::Conversation& conversation) const;
  void set_reply(const text::ChatPrompt& prompt, ChatRequest& asked) const;
  Constraint reply_constraint(const ChatRequest& asked, const std::vector<text::OfferedTool>& tools) const;
  TokenLimit tokenize_limit() const;
  TokenLimit prompt_limit(const PromptOptions& options, std::size_t most) const;
  std::vector<int> encode(const Prompt& prompt, const PromptOptions& options, std::size_t kept,
                          const TokenLimit& limit) const;

  const ReadyModel& model_;
  std::size_t most_tokenized_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_PROMPT_ENCODER_H_
