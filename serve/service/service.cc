#include "serve/service/service.h"

#include <algorithm>
#include <ctime>
#include <exception>
#include <random>
#include <sstream>
#include <utility>

#include "ballast/version.h"
#include "files/text.h"
#include "files/utf8.h"
#include "serve/api/chat_format.h"
#include "serve/api/embedding_format.h"
#include "serve/api/json_text.h"
#include "serve/page/page.h"
#include "serve/service/embedding_answer.h"
#include "serve/service/metrics_text.h"

namespace ballast::serve {
namespace {

// Requests that wait for a worker, each with its body.
constexpr std::size_t kMostPosted = 256;

/// "cmpl-" and 24 digits that nobody guesses.
std::string random_id(std::string_view prefix) {
  std::random_device random;
  std::ostringstream id;
  id << prefix << std::hex;
  for (int i = 0; i < 3; ++i) id << (0x10000000U | (random() & 0x0FFFFFFFU));
  return std::move(id).str();
}

/// "[::1]:8080" -> "::1", "LocalHost:8080" -> "localhost".
std::string host_without_port(std::string_view host) {
  if (host.starts_with('[')) return lower_case(host.substr(1, host.find(']') - 1));
  return lower_case(host.substr(0, host.find(':')));
}

void check_content_type(const HttpRequest& request) {
  std::string_view type = request.header("content-type");
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  if (lower_case(type) != "application/json") {
    throw ApiError(415, "the body must be sent as Content-Type: application/json");
  }
}

nlohmann::ordered_json token_text_or_null(const text::Tokenizer& tokenizer, std::optional<int> id) {
  return id ? nlohmann::ordered_json(token_text(tokenizer, *id)) : nullptr;
}

}  // namespace

struct Service::Endpoint {
  std::string_view method;
  std::string_view path;
  bool is_public;
  bool takes_time;  ///< belongs to the workers
  void (*answer)(Service& service, const std::shared_ptr<HttpExchange>& exchange,
                 const std::shared_ptr<Strand>& strand);
};

const std::vector<Service::Endpoint>& Service::endpoints() {
  using ExchangePtr = std::shared_ptr<HttpExchange>;
  using StrandPtr = std::shared_ptr<Strand>;
  static const std::vector<Endpoint> all = {
      {"GET", "/", true, false, [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.page(*e); }},
      {"GET", "/health", true, false, [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.health(*e); }},
      {"GET", "/v1/models", false, false, [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.models(*e); }},
      {"GET", "/v1/models/", false, false, [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.model(*e); }},
      {"GET", "/metrics", false, false, [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.metrics(*e); }},
      {"GET", "/v1/ballast/outliers", false, false,
       [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.outliers(*e); }},
      {"GET", "/tokenizer_info", false, true,
       [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.tokenizer_info(*e); }},
      {"POST", "/tokenize", false, true, [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.tokenize(*e); }},
      {"POST", "/detokenize", false, true,
       [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.detokenize(*e); }},
      {"POST", "/apply-template", false, true,
       [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.apply_template(*e); }},
      {"POST", "/v1/completions", false, true,
       [](Service& s, const ExchangePtr& e, const StrandPtr& o) { s.complete(e, o); }},
      {"POST", "/v1/embeddings", false, true,
       [](Service& s, const ExchangePtr& e, const StrandPtr& o) { s.embed(e, o); }},
      {"POST", "/v1/chat/completions", false, true,
       [](Service& s, const ExchangePtr& e, const StrandPtr& o) { s.chat(e, o); }},
  };
  return all;
}

Service::Service(ServiceOptions options) : options_(std::move(options)), workers_(options_.workers) {}

void Service::offer(ReadyModel model) {
  model_ = std::make_unique<const ReadyModel>(std::move(model));
  ready_ = model_.get();
}

void Service::withdraw() {
  ready_ = nullptr;
}

void Service::handle(const std::shared_ptr<HttpExchange>& exchange) {
  try {
    answer(exchange);
  } catch (const ApiError& error) {
    exchange->respond(error.response());
  }
}

std::optional<HttpResponse> Service::check_head(const HttpRequest& head) const {
  try {
    check(head);
    return std::nullopt;
  } catch (const ApiError& error) {
    return error.response();
  }
}

/// The endpoint that a request is for, where the one who asks may.
const Service::Endpoint& Service::check(const HttpRequest& request) const {
  check_origin(request);
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  const auto same_path = [&](const Endpoint& endpoint) {
    const bool below = endpoint.path.ends_with('/') && endpoint.path != "/" && request.path.starts_with(endpoint.path);
    return endpoint.path == request.path || below;
  };
  const auto endpoint = std::ranges::find_if(
      endpoints(), [&](const Endpoint& other) { return same_path(other) && other.method == method; });
  if (endpoint == endpoints().end()) {
    const auto other = std::ranges::find_if(endpoints(), same_path);
    if (other == endpoints().end()) throw ApiError(404, "there is no such address");
    throw ApiError(405, files::concat(request.method, " is not possible here"))
        .with_header("Allow", other->method == "GET" ? "GET, HEAD" : std::string(other->method));
  }
  if (!endpoint->is_public) user_of(request);
  if (method == "POST") check_content_type(request);
  return *endpoint;
}

void Service::answer(const std::shared_ptr<HttpExchange>& exchange) {
  const Endpoint& endpoint = check(exchange->request());
  log_body(exchange->request());
  if (!endpoint.takes_time) return endpoint.answer(*this, exchange, nullptr);
  if (posted_ >= kMostPosted) {
    count_rejection("busy");
    throw ApiError(429, "too many requests came at once").with_code("queue_full").with_retry_after(1);
  }
  post(exchange, endpoint);
}

/// To the workers. What a client has sent and not waited for is not worked on.
void Service::post(const std::shared_ptr<HttpExchange>& exchange, const Endpoint& endpoint) {
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  exchange->on_gone([gone] { *gone = true; });
  ++posted_;
  const auto strand = std::make_shared<Strand>(workers_);
  strand->post([this, exchange, strand, gone, &endpoint] {
    --posted_;
    if (*gone) return;
    try {
      endpoint.answer(*this, exchange, strand);
    } catch (const ApiError& error) {
      exchange->respond(error.response());
    } catch (const std::exception& error) {
      exchange->respond(ApiError(500, error.what()).response());
    }
  });
}

/// A page from elsewhere must not ask in the name of who looks at it, nor by a name that was made to mean this machine.
void Service::check_origin(const HttpRequest& request) const {
  const std::string_view host = request.header("host");
  if (!options_.hosts.empty() && std::ranges::find(options_.hosts, host_without_port(host)) == options_.hosts.end()) {
    throw ApiError(403, "the Host header names another server");
  }
  const std::string_view origin = request.header("origin");
  const std::size_t scheme = origin.find("://");
  if (!origin.empty() && (scheme == std::string_view::npos || origin.substr(scheme + 3) != host)) {
    throw ApiError(403, "requests of pages from elsewhere are not answered");
  }
}

/// The name that goes with the key; without keys everybody is the same user.
std::string Service::user_of(const HttpRequest& request) const {
  if (options_.keys.empty()) return {};
  const std::optional<std::string_view> name = options_.keys.name_of(request.header("authorization"));
  if (!name) throw ApiError(401, "a valid key is needed: Authorization: Bearer KEY").with_code("invalid_api_key");
  return std::string(*name);
}

/// Users share no pages: how much of a prompt was in the cache would tell one what another has asked.
void Service::set_user(GenerationRequest& request, const HttpRequest& http) const {
  request.user = user_of(http);
  request.salt = request.user + '\0' + request.salt;
}

const ReadyModel& Service::ready() const {
  const ReadyModel* model = ready_;
  if (model == nullptr)
    throw ApiError(503, "the model is being loaded, or the server is going down").with_retry_after(1);
  return *model;
}

const text::Tokenizer& Service::tokenizer() const {
  const ReadyModel& model = ready();
  if (model.loaded.own_tokenizer == nullptr) throw ApiError(400, "the model came without a tokenizer");
  return *model.loaded.own_tokenizer;
}

void Service::log_body(const HttpRequest& request) const {
  if (!options_.log || !options_.log_prompts || request.method != "POST") return;
  options_.log({{"event", "body"},
                {"path", request.path},
                {"client", request.client},
                {"body", files::replace_invalid_utf8(request.body)}});
}

void Service::count_rejection(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  ++rejections_[reason];
}

void Service::health(HttpExchange& exchange) {
  ready();
  exchange.respond({.body = R"({"status":"ok"})"});
}

void Service::page(HttpExchange& exchange) {
  exchange.respond({.content_type = "text/html; charset=utf-8",
                    .body = std::string(page_text()),
                    .headers = {{"Content-Security-Policy", page_policy()},
                                {"X-Content-Type-Options", "nosniff"},
                                {"Referrer-Policy", "no-referrer"},
                                {"Cache-Control", "no-cache"}}});
}

void Service::models(HttpExchange& exchange) {
  exchange.respond({.body = json_text({{"object", "list"}, {"data", nlohmann::ordered_json::array({ready().about})}})});
}

void Service::model(HttpExchange& exchange) {
  check_model(std::string_view(exchange.request().path).substr(std::string_view("/v1/models/").size()));
  exchange.respond({.body = json_text(ready().about)});
}

void Service::check_model(std::string_view name) const {
  if (name == options_.model_name) return;
  throw ApiError(
      404,
      files::concat("there is no model ", files::in_quotes(name), " here, but ", files::in_quotes(options_.model_name)),
      "model")
      .with_code("model_not_found");
}

void Service::metrics(HttpExchange& exchange) {
  const Figures figures = ready().scheduler.figures();
  const std::lock_guard lock(mutex_);
  exchange.respond(
      {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics_text(figures, rejections_)});
}

void Service::outliers(HttpExchange& exchange) {
  if (ready().outliers.is_null()) throw ApiError(404, "the server was started without --stats");
  exchange.respond({.body = json_text(ready().outliers)});
}

/// vLLM's spelling of the fields, or llama-server's.
void Service::tokenize(HttpExchange& exchange) {
  const RequestFields fields(exchange.request().body);
  const bool vllm = fields.has("prompt");
  const std::optional<std::string> text = fields.text(vllm ? "prompt" : "content");
  if (!text) throw ApiError(400, "prompt: is missing", "prompt");
  const bool special = vllm ? fields.flag("add_special_tokens", true) : fields.flag("add_special", false);
  const std::vector<int> ids = special ? encode(*text) : tokenizer().encode(*text);
  const nlohmann::ordered_json answer = {
      {"count", ids.size()}, {"max_model_len", ready().scheduler.context_length()}, {"tokens", ids}};
  exchange.respond({.body = json_text(answer)});
}

void Service::detokenize(HttpExchange& exchange) {
  const RequestFields fields(exchange.request().body);
  const auto most = static_cast<int>(ready().loaded.model.spec().vocab_size) - 1;
  const auto ids = fields.read("tokens", [&](const files::JsonReader& value) { return value.integers<int>(0, most); });
  if (!ids) throw ApiError(400, "tokens: are missing", "tokens");
  const std::string text = text::decode(tokenizer(), *ids);
  exchange.respond({.body = json_text({{"prompt", text}, {"content", text}})});
}

void Service::tokenizer_info(HttpExchange& exchange) {
  const text::Tokenizer& own = tokenizer();
  const nlohmann::ordered_json info = {{"tokenizer_class", own.description()},
                                       {"bos_token", token_text_or_null(own, own.bos())},
                                       {"eos_token", token_text_or_null(own, own.eos())},
                                       {"pad_token", token_text_or_null(own, own.eos())},
                                       {"add_bos_token", own.adds_bos()},
                                       {"chat_template", own.chat_template()},
                                       {"vocab_size", own.vocab_size()}};
  exchange.respond({.body = json_text(info)});
}

void Service::apply_template(HttpExchange& exchange) {
  const RequestFields fields(exchange.request().body);
  try {
    std::string prompt = text::apply_chat_template(tokenizer(), read_conversation(fields)).text;
    exchange.respond({.body = json_text({{"prompt", std::move(prompt)}})});
  } catch (const Error& error) {
    throw ApiError(400, error.what(), "messages");
  }
}

std::vector<int> Service::encode(const Prompt& prompt) const {
  if (const auto* ids = std::get_if<std::vector<int>>(&prompt)) return *ids;
  std::vector<int> ids = tokenizer().encode(std::get<std::string>(prompt));
  const std::vector<int>& leading = tokenizer().leading_special_tokens();
  ids.insert(ids.begin(), leading.begin(), leading.end());
  if (!ready().loaded.model.spec().causal)
    ids.insert(ids.end(), tokenizer().suffix().begin(), tokenizer().suffix().end());
  return ids;
}

/// Sets max_tokens, and refuses what can't be generated.
void Service::check_lengths(const RequestFields& fields, std::string_view field, GenerationRequest& request,
                            std::size_t fallback) const {
  const std::size_t context = ready().scheduler.context_length();
  if (!ready().loaded.model.spec().causal) {
    throw ApiError(400, "the model is an encoder, which goes on with no text: ask /v1/embeddings", "model");
  }
  if (request.prompt.empty()) throw ApiError(400, "prompt: has no tokens", "prompt");
  request.options.max_tokens = read_most_tokens(fields, field, request.prompt.size(), context, fallback);
  if (request.options.max_tokens == 0 && !fields.flag("echo", false)) {
    throw ApiError(400, files::concat(field, ": 0 is for prompts that are echoed"), std::string(field));
  }
}

void Service::complete(const std::shared_ptr<HttpExchange>& exchange, const std::shared_ptr<Strand>& strand) {
  constexpr std::size_t kMostTokens = 16;  // OpenAI's default
  const ReadyModel& model = ready();
  const RequestFields fields(exchange->request().body);
  if (const auto name = fields.text("model")) check_model(*name);
  const CompletionRequest asked = read_completion(fields, model.loaded.model.spec().vocab_size);
  const bool logprobs = asked.generation.options.logprobs.has_value();
  const auto answer = std::make_shared<TextAnswer>(
      exchange, strand, std::make_unique<CompletionFormat>(tokenizer(), logprobs), tokenizer(),
      AnswerHead{.id = random_id("cmpl-"),
                 .model = options_.model_name,
                 .created = std::time(nullptr),
                 .delivery = asked.delivery,
                 .prompts = asked.prompts.size(),
                 .choices = asked.generation.choices,
                 .logprobs = logprobs});
  std::vector<GenerationRequest> requests;
  for (const Prompt& prompt : asked.prompts) {
    GenerationRequest& request = requests.emplace_back(asked.generation);
    request.prompt = encode(prompt);
    set_user(request, exchange->request());
    check_lengths(fields, "max_tokens", request, kMostTokens);
    if (!asked.echo) continue;
    const auto* text = std::get_if<std::string>(&prompt);
    answer->echo(requests.size() - 1, text != nullptr ? *text : text::decode(tokenizer(), request.prompt),
                 request.prompt);
  }
  submit(*answer, std::move(requests));
}

void Service::chat(const std::shared_ptr<HttpExchange>& exchange, const std::shared_ptr<Strand>& strand) {
  const ReadyModel& model = ready();
  const RequestFields fields(exchange->request().body);
  if (const auto name = fields.text("model")) check_model(*name);
  ChatRequest asked = read_chat(fields, model.loaded.model.spec().vocab_size);
  try {
    asked.generation.prompt = text::encode(tokenizer(), text::apply_chat_template(tokenizer(), asked.conversation));
  } catch (const Error& error) {
    throw ApiError(400, error.what(), "messages");
  }
  set_user(asked.generation, exchange->request());
  check_lengths(fields, asked.most_tokens_field, asked.generation,
                model.scheduler.most_tokens(asked.generation.choices, asked.generation.prompt.size()));
  const bool logprobs = asked.generation.options.logprobs.has_value();
  const auto answer =
      std::make_shared<TextAnswer>(exchange, strand, std::make_unique<ChatFormat>(tokenizer(), logprobs), tokenizer(),
                                   AnswerHead{.id = random_id("chatcmpl-"),
                                              .model = options_.model_name,
                                              .created = std::time(nullptr),
                                              .delivery = asked.delivery,
                                              .choices = asked.generation.choices,
                                              .logprobs = logprobs});
  std::vector<GenerationRequest> requests;
  requests.push_back(std::move(asked.generation));
  submit(*answer, std::move(requests));
}

void Service::embed(const std::shared_ptr<HttpExchange>& exchange, const std::shared_ptr<Strand>& strand) {
  const ReadyModel& model = ready();
  const RequestFields fields(exchange->request().body);
  if (const auto name = fields.text("model")) check_model(*name);
  const EmbeddingRequest asked = read_embedding(fields, model.loaded.model.spec().vocab_size);
  const TextVectorSpec vectors = model.loaded.model.spec().text_vectors.value_or(TextVectorSpec{});
  std::size_t most_tokens = model.scheduler.context_length();
  if (vectors.most_tokens > 0) most_tokens = std::min(most_tokens, vectors.most_tokens);
  std::vector<GenerationRequest> requests;
  for (const Prompt& input : asked.inputs) {
    GenerationRequest& request = requests.emplace_back();
    request.prompt = encode(input);
    request.embed = asked.pooling.value_or(vectors.pooling);
    set_user(request, exchange->request());
    if (request.prompt.empty() || request.prompt.size() > most_tokens) {
      throw ApiError(
          400, files::concat("input: has ", request.prompt.size(), " tokens, 1 to ", most_tokens, " are possible"),
          "input");
    }
  }
  const auto answer =
      std::make_shared<EmbeddingAnswer>(exchange, strand, options_.model_name, asked.inputs.size(), asked.base64);
  submit(*answer, std::move(requests));
}

/// All of them or none.
void Service::submit(ModelAnswer& answer, std::vector<GenerationRequest> requests) {
  std::vector<Submission> submissions;
  for (GenerationRequest& request : requests) {
    const std::size_t prompt = submissions.size();
    submissions.push_back({.request = std::move(request), .listener = answer.listener(prompt)});
  }
  try {
    auto tickets = ready().scheduler.submit(std::move(submissions));
    if (tickets) return answer.start(*std::move(tickets));
    count_rejection(tickets.error().reason);
    throw ApiError(tickets.error().reason == "draining" ? 503 : 429, tickets.error().message)
        .with_code(tickets.error().reason)
        .with_retry_after(tickets.error().retry_after);
  } catch (const Error& error) {
    const std::string_view message = error.what();
    throw ApiError(400, std::string(message), std::string(message.substr(0, message.find(':'))));
  }
}

}  // namespace ballast::serve
