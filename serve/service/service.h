// The endpoints of the server.
#ifndef BALLAST_SERVE_SERVICE_SERVICE_H_
#define BALLAST_SERVE_SERVICE_SERVICE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/answer_format.h"
#include "serve/api/api_error.h"
#include "serve/api/chat_request.h"
#include "serve/api/embedding_format.h"
#include "serve/api/openai_format.h"
#include "serve/http/http_server.h"
#include "serve/service/answer_shape.h"
#include "serve/service/api_keys.h"
#include "serve/service/embedding_answer.h"
#include "serve/service/metrics_text.h"
#include "serve/service/model_answer.h"
#include "serve/service/prompt_encoder.h"
#include "serve/service/ready_model.h"
#include "serve/service/response_store.h"
#include "serve/service/worker_pool.h"

namespace ballast::serve {

struct ServiceOptions {
  std::string model_name;
  std::string reply_format = "auto";  ///< for chats
  ApiKeys keys{};
  /// Additional names that a Host header may have; empty: any name.
  std::vector<std::string> hosts{};
  bool any_model_name = false;                        ///< requests may name another model
  std::shared_ptr<MemoryBudget> memory{};             ///< shared with the network; null: no limit
  std::size_t most_tokenized = std::size_t{1} << 18;  ///< tokens of /tokenize and /detokenize
  std::function<std::uint64_t()> dropped_log_lines{};
  bool log_prompts = false;
  std::function<void(const nlohmann::ordered_json&)> log{};  ///< any thread
};

/// Answers requests: simple ones on the network thread, others on the workers. Bodies are parsed by threads with a
/// lower priority than those that build answers, large ones by one with a still lower priority: a text that takes long
/// to encode delays neither the answers of others nor their short prompts.
class Service {
 public:
  explicit Service(ServiceOptions options);

  /// Makes the model available; before this call, and after withdraw(), requests are answered with 503. The model must
  /// stay valid until finish().
  void offer(ReadyModel model);
  void withdraw();

  /// Waits until all answers have ended, so that the model can be destroyed. No more requests may be accepted.
  void finish();

  /// An HttpHandler.
  void handle(const std::shared_ptr<HttpExchange>& exchange);

  /// Refuses a request from its head if it would be refused for any body.
  std::optional<HttpResponse> check_head(const HttpRequest& head) const;

 private:
  struct Endpoint;

  static constexpr std::size_t kStoredBytes = std::size_t{64} << 20;

  /// Gets the number of the prompt's tokens.
  using MakeFormat = std::function<std::unique_ptr<AnswerFormat>(std::size_t prompt_tokens)>;

  static const std::vector<Endpoint>& endpoints();
  static const Endpoint& options_endpoint();
  static std::string allowed_methods(std::string_view path);
  const Endpoint& check(const HttpRequest& head) const;
  void answer(const std::shared_ptr<HttpExchange>& exchange);
  void post(const std::shared_ptr<HttpExchange>& exchange, const Endpoint& endpoint);
  void read(const std::shared_ptr<HttpExchange>& exchange, const Endpoint& endpoint);
  void hold(HttpExchange& exchange, std::size_t bytes);
  void check_origin(const HttpRequest& request) const;
  std::string user_of(const HttpRequest& request) const;
  void set_user(GenerationRequest& request, const HttpRequest& http) const;
  const ReadyModel& ready() const;
  PromptEncoder prompt_encoder() const;
  const text::Tokenizer& tokenizer() const;
  void check_model(std::string_view name) const;
  void check_model(const RequestFields& fields) const;
  void log_body(const HttpRequest& request) const;
  void count_rejection(const std::string& reason);
  RequestStats request_stats() const;

  // The endpoints. They throw ApiError.
  void health(HttpExchange& exchange);
  void page(HttpExchange& exchange);
  void models(HttpExchange& exchange);
  void model(HttpExchange& exchange);
  void metrics(HttpExchange& exchange);
  void outliers(HttpExchange& exchange);
  void tokenize(HttpExchange& exchange);
  void detokenize(HttpExchange& exchange);
  void tokenizer_info(HttpExchange& exchange);
  void apply_template(HttpExchange& exchange);
  void complete(const std::shared_ptr<HttpExchange>& exchange, const std::shared_ptr<Strand>& strand);
  void embed(const std::shared_ptr<HttpExchange>& exchange, const std::shared_ptr<Strand>& strand);
  void chat(const std::shared_ptr<HttpExchange>& exchange, const std::shared_ptr<Strand>& strand);

  void infill(const std::shared_ptr<HttpExchange>& exchange, const std::shared_ptr<Strand>& strand);
  void respond(const std::shared_ptr<HttpExchange>& exchange, const std::shared_ptr<Strand>& strand);
  void response(HttpExchange& exchange);
  void delete_response(HttpExchange& exchange);
  void messages(const std::shared_ptr<HttpExchange>& exchange, const std::shared_ptr<Strand>& strand);
  void count_message_tokens(HttpExchange& exchange);
  void ollama_chat(const std::shared_ptr<HttpExchange>& exchange, const std::shared_ptr<Strand>& strand);
  void ollama_generate(const std::shared_ptr<HttpExchange>& exchange, const std::shared_ptr<Strand>& strand);
  void ollama_embed(const std::shared_ptr<HttpExchange>& exchange, const std::shared_ptr<Strand>& strand);
  void ollama_show(HttpExchange& exchange);
  void ollama_tags(HttpExchange& exchange);
  void ollama_version(HttpExchange& exchange);
  void options(HttpExchange& exchange);

  EmbeddingRequest read_embedding_of(const RequestFields& fields) const;
  void answer_embedding(const std::shared_ptr<HttpExchange>& exchange, const std::shared_ptr<Strand>& strand,
                        const EmbeddingRequest& asked, EmbeddingAnswer::MakeBody make_body);
  OpenAiHead openai_head(std::string_view prefix, const AnswerShape& shape, const Delivery& delivery) const;
  void answer_chat(const std::shared_ptr<HttpExchange>& exchange, const std::shared_ptr<Strand>& strand,
                   ChatRequest asked, const MakeFormat& make_format);
  void answer_prompt(const std::shared_ptr<HttpExchange>& exchange, const std::shared_ptr<Strand>& strand,
                     GenerationRequest generation, const AnswerLimit& limit, const AnswerShape& shape,
                     std::unique_ptr<AnswerFormat> format);
  void submit(HttpExchange& exchange, ModelAnswer& answer, std::vector<GenerationRequest> requests, std::size_t bytes);

  ServiceOptions options_;
  std::atomic<const ReadyModel*> ready_ = nullptr;
  std::unique_ptr<const ReadyModel> model_;
  mutable std::mutex mutex_;
  std::map<std::string, std::uint64_t> rejections_;
  ResponseStore responses_{kStoredBytes};
  std::atomic<std::size_t> posted_ = 0;  ///< requests that no worker has started
  // Last: their tasks use the other members.
  WorkerPool answering_;
  WorkerPool reading_;
  WorkerPool reading_large_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_SERVICE_H_
