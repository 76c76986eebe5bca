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
#include "serve/api/scoring_format.h"
#include "serve/http/http_server.h"
#include "serve/service/adapter_registry.h"
#include "serve/service/answer_shape.h"
#include "serve/service/api_keys.h"
#include "serve/service/embedding_answer.h"
#include "serve/service/metrics_text.h"
#include "serve/service/model_answer.h"
#include "serve/service/model_registry.h"
#include "serve/service/prompt_encoder.h"
#include "serve/service/ready_model.h"
#include "serve/service/response_store.h"
#include "serve/service/worker_pool.h"

namespace ballast::serve {

struct ServiceOptions {
  ApiKeys keys{};
  /// Additional names that a Host header may have; empty: any name.
  std::vector<std::string> hosts{};
  std::shared_ptr<MemoryBudget> memory{};             ///< shared with the network; null: no limit
  std::size_t most_tokenized = std::size_t{1} << 18;  ///< tokens of /tokenize and /detokenize
  std::function<std::uint64_t()> dropped_log_lines{};
  bool log_prompts = false;
  bool runtime_adapters = false;                             ///< clients may load adapters
  std::function<void(const nlohmann::ordered_json&)> log{};  ///< any thread
};

/// Answers requests: simple ones on the network thread, others on the workers. Bodies are parsed by threads with a
/// lower priority than those that build answers, large ones by one with a still lower priority: a text that takes long
/// to encode delays neither the answers of others nor their short prompts. A request whose model must be loaded first
/// waits without a thread.
class Service {
 public:
  /// The registry must outlive this object.
  Service(ServiceOptions options, ModelRegistry& registry);

  /// Loads an adapter of an only model, which requests then find by its name. Throws Error.
  void add_adapter(const ReadyModel& model, const std::string& name, const AdapterFiles& files);

  /// Sets the number of threads that compute. Any thread.
  void set_compute_threads(std::size_t count) { compute_threads_ = count; }

  /// Waits until all answers have ended, so that the models can be destroyed. No more requests may be accepted, and
  /// none may wait for a model.
  void finish();

  /// An HttpHandler.
  void handle(const std::shared_ptr<HttpExchange>& exchange);

  /// Refuses a request from its head if it would be refused for any body.
  std::optional<HttpResponse> check_head(const HttpRequest& head) const;

 private:
  struct Endpoint;

  /// A request that a worker reads, or that waits for its model.
  struct Posted;

  /// A request with its model.
  struct Call {
    const std::shared_ptr<HttpExchange>& exchange;
    const std::shared_ptr<Strand>& strand;  ///< of the answer; held until the request is read
    const RequestFields& fields;
    const ModelLease& model;
    const ServedAdapterPtr& adapter;  ///< null: none

    /// Returns the model's name for the client.
    const std::string& name() const { return adapter != nullptr ? adapter->name : model->name; }
  };

  static constexpr std::size_t kStoredBytes = std::size_t{64} << 20;

  /// Gets the number of the prompt's tokens.
  using MakeFormat = std::function<std::unique_ptr<AnswerFormat>(std::size_t prompt_tokens)>;

  static const std::vector<Endpoint>& endpoints();
  static const Endpoint& options_endpoint();
  static std::string allowed_methods(std::string_view path);
  const Endpoint& check(const HttpRequest& head) const;
  void answer(const std::shared_ptr<HttpExchange>& exchange);
  void post(const std::shared_ptr<HttpExchange>& exchange, const Endpoint& endpoint);
  void read(const std::shared_ptr<Posted>& posted);
  void unload(const Posted& posted);
  void get_model(const std::shared_ptr<Posted>& posted);
  void answer_with(Posted& posted, const ModelLease& model);
  void hold(HttpExchange& exchange, std::size_t bytes);
  void check_origin(const HttpRequest& request) const;
  std::string user_of(const HttpRequest& request) const;
  void set_user(GenerationRequest& request, const HttpRequest& http) const;
  PromptEncoder prompt_encoder(const Call& call) const;
  void log_body(const HttpRequest& request) const;
  void count_rejection(const std::string& reason);
  RequestStats request_stats() const;

  // The endpoints. They throw ApiError. These answer at once:
  void health(HttpExchange& exchange);
  void page(HttpExchange& exchange);
  void models(HttpExchange& exchange);
  void model(HttpExchange& exchange);
  void metrics(HttpExchange& exchange);
  void response(HttpExchange& exchange);
  void delete_response(HttpExchange& exchange);
  void ollama_tags(HttpExchange& exchange);
  void ollama_ps(HttpExchange& exchange);
  void ollama_version(HttpExchange& exchange);
  void adapters(HttpExchange& exchange);
  void options(HttpExchange& exchange);

  // These need a model:
  void outliers(const Call& call);
  void tokenize(const Call& call);
  void detokenize(const Call& call);
  void tokenizer_info(const Call& call);
  void apply_template(const Call& call);
  void complete(const Call& call);
  void embed(const Call& call);
  void chat(const Call& call);
  void infill(const Call& call);
  void respond(const Call& call);
  void messages(const Call& call);
  void count_message_tokens(const Call& call);
  void ollama_chat(const Call& call);
  void ollama_generate(const Call& call);
  void ollama_embed(const Call& call);
  void rerank(const Call& call);
  void score(const Call& call);
  void classify(const Call& call);
  void translate(const Call& call);
  void tei_answer(const Call& call);
  void tei_embed(const Call& call);
  void tei_predict(const Call& call);
  void tei_similarity(const Call& call);
  void tei_info(const Call& call);
  void load_adapter(const Call& call);
  void unload_adapter(const Call& call);
  void ollama_show(const Posted& posted);

  static EmbeddingRequest read_embedding_of(const Call& call);
  void answer_embedding(const Call& call, const EmbeddingRequest& asked, EmbeddingAnswer::MakeBody make_body);
  void answer_scores(const Call& call, const ScoringRequest& asked, EmbeddingAnswer::MakeBody make_body);
  std::vector<GenerationRequest> scoring_requests(const Call& call, const ScoringRequest& asked) const;
  void submit_scored(const Call& call, const ScoringRequest& asked, EmbeddingAnswer::MakeBody make_body);
  void submit_scored(const Call& call, const ScoringRequest& asked, std::vector<GenerationRequest> requests,
                     EmbeddingAnswer::MakeBody make_body);
  void classify_tokens(const Call& call);
  void answer_tei_rerank(const Call& call);
  static OpenAiHead openai_head(const Call& call, std::string_view prefix, const AnswerShape& shape,
                                const Delivery& delivery);
  void answer_chat(const Call& call, ChatRequest asked, const MakeFormat& make_format);
  void answer_prompt(const Call& call, GenerationRequest generation, const AnswerLimit& limit, const AnswerShape& shape,
                     std::unique_ptr<AnswerFormat> format);
  void submit(const Call& call, ModelAnswer& answer, std::vector<GenerationRequest> requests, std::size_t bytes);

  ServiceOptions options_;
  ModelRegistry& registry_;
  AdapterRegistry adapters_;
  mutable std::mutex mutex_;
  std::map<std::string, std::uint64_t> rejections_;
  ResponseStore responses_{kStoredBytes};
  std::atomic<std::size_t> posted_ = 0;  ///< requests that no worker has started
  std::atomic<std::size_t> translations_ = 0;
  std::atomic<std::size_t> compute_threads_ = 1;
  std::atomic<bool> ending_ = false;
  // Last: their tasks use the other members.
  WorkerPool answering_;
  WorkerPool reading_;
  WorkerPool reading_large_;
  WorkerPool translating_;
};

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_SERVICE_SERVICE_H_
