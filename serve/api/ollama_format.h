// Ollama's API, for clients that speak no other: /api/chat, /api/generate and descriptions of the model.
#ifndef BALLAST_SERVE_API_OLLAMA_FORMAT_H_
#define BALLAST_SERVE_API_OLLAMA_FORMAT_H_

#include <chrono>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ballast/generate.h"
#include "serve/api/answer_format.h"
#include "serve/api/chat_request.h"

namespace ballast::serve {

/// A request to /api/generate: a prompt as it is (`raw`), text around a gap, or one message.
struct OllamaGenerateRequest {
  ChatRequest chat;
  std::optional<std::string> raw{};     ///< a prompt without a template
  std::optional<std::string> suffix{};  ///< the text after the gap; the one before it is in `raw`
};

/// Both return nullopt for a request without a prompt, which only loads the model. Throw ApiError.
std::optional<ChatRequest> read_ollama_chat(const RequestFields& fields, const ModelFacts& model);
std::optional<OllamaGenerateRequest> read_ollama_generate(const RequestFields& fields, const ModelFacts& model);

/// Returns whether a request to /api/chat or /api/generate has neither a prompt nor messages.
bool is_without_prompt(const RequestFields& fields);

/// How long a model stays in memory after a request; nullopt: until other models need the memory.
struct KeepAlive {
  std::optional<std::chrono::milliseconds> time;
};

/// Reads `keep_alive`: seconds, or a text such as "1h30m"; below 0: without a limit. Returns nullopt if it is missing.
/// Throws ApiError.
std::optional<KeepAlive> read_keep_alive(const RequestFields& fields);

/// Returns the answer to a request without a prompt. `reason`: "load" or "unload".
nlohmann::ordered_json ollama_loaded_json(const std::string& model, bool is_chat, std::string_view reason);

/// Returns an entry of /api/tags and /api/ps, from the model's entry in /v1/models.
nlohmann::ordered_json ollama_model_json(const nlohmann::ordered_json& about);

/// Returns the answer of /api/show, from a complete entry in /v1/models.
nlohmann::ordered_json ollama_show_json(const nlohmann::ordered_json& about, const std::string& chat_template);

/// Returns the answer of /api/embed.
nlohmann::ordered_json ollama_embeddings_json(const std::string& model, std::span<const std::vector<float>> vectors,
                                              const RequestUsage& usage, std::chrono::steady_clock::duration time);

/// Writes lines of JSON, the last one with the figures of the answer.
class OllamaFormat : public AnswerFormat {
 public:
  /// `is_chat`: the answer is a message; otherwise a text.
  OllamaFormat(std::string model, bool is_chat)
      : model_(std::move(model)), is_chat_(is_chat), begin_(std::chrono::steady_clock::now()) {}

  std::string_view stream_type() const override { return "application/x-ndjson"; }
  std::string_view heartbeat() const override { return {}; }  // every line must be JSON
  std::string begin_stream(std::size_t /*choices*/) override { return {}; }
  std::string write_piece(const AnswerPiece& piece) override;
  std::string end_stream(const RequestUsage& usage) override;
  void add_choice(const AnswerPiece& choice, std::string& body) override;
  void end_body(const RequestUsage& usage, std::string& body) override;

 private:
  nlohmann::ordered_json line_json(std::span<const ReplyPart> parts);
  nlohmann::ordered_json last_json(nlohmann::ordered_json line, const RequestUsage& usage) const;
  void see(const AnswerPiece& piece);

  std::string model_;
  bool is_chat_;
  std::chrono::steady_clock::time_point begin_;
  std::optional<std::chrono::steady_clock::time_point> first_;  ///< when the first text came
  std::vector<ReplyPart> parts_;                                ///< of a body, or of the open call
  bool ends_early_ = false;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_OLLAMA_FORMAT_H_
