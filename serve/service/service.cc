#include "serve/service/service.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <iterator>
#include <limits>
#include <random>
#include <span>
#include <sstream>
#include <utility>

#include "ballast/version.h"
#include "files/text.h"
#include "files/utf8.h"
#include "serve/api/chat_format.h"
#include "serve/api/field_table.h"
#include "serve/api/json_text.h"
#include "serve/api/ollama_format.h"
#include "serve/api/sampling_defaults.h"
#include "serve/page/page.h"
#include "serve/service/embedding_answer.h"
#include "serve/service/request_memory.h"

namespace ballast::serve {
namespace {

// Requests that wait for a worker, each with its body.
constexpr std::size_t kMostPosted = 256;

// Longer bodies are parsed by a separate thread.
constexpr std::size_t kLargeBody = std::size_t{64} << 10;

// Threads, and their niceness.
constexpr std::size_t kAnswering = 2;
constexpr std::size_t kReading = 2;
constexpr std::size_t kTranslating = 4;  // whose steps run as one batch
constexpr int kReadingNiceness = 4;
constexpr int kReadingLargeNiceness = 10;

std::string in_megabytes(std::size_t bytes) {
  return files::concat(bytes / 1'000'000, ".", bytes / 100'000 % 10, " MB");
}

/// "[::1]:8080" -> "::1", "LocalHost:8080" -> "localhost".
std::string host_without_port(std::string_view host) {
  if (host.starts_with('[')) return lower_case(host.substr(1, host.find(']') - 1));
  return lower_case(host.substr(0, host.find(':')));
}

/// Checks the type of the body. Many clients leave it out, or send curl's default: like llama-server, the server then
/// assumes JSON. Pages of other sites can send some of these types without a preflight request; check_origin refuses
/// them.
void check_content_type(const HttpRequest& request) {
  constexpr std::array<std::string_view, 6> kTypes = {
      "",           "application/json",         "text/json",
      "text/plain", "application/octet-stream", "application/x-www-form-urlencoded"};
  std::string_view sent = request.header("content-type");
  sent = sent.substr(0, sent.find(';'));
  while (sent.ends_with(' ')) sent.remove_suffix(1);
  const std::string type = lower_case(sent);
  if (std::ranges::find(kTypes, type) == kTypes.end() && !type.ends_with("+json")) {
    throw ApiError(415, "the body must be sent as Content-Type: application/json");
  }
}

/// Returns a token in llama-server's form: its text, or its bytes if they are not UTF-8.
nlohmann::ordered_json piece_json(const text::Tokenizer& tokenizer, int id) {
  const std::string bytes = tokenizer.token_bytes(id);
  if (files::is_utf8(bytes)) return {{"id", id}, {"piece", bytes}};
  nlohmann::ordered_json numbers = nlohmann::ordered_json::array();
  for (const char byte : bytes) numbers.push_back(static_cast<unsigned char>(byte));
  return {{"id", id}, {"piece", std::move(numbers)}};
}

nlohmann::ordered_json token_text_or_null(const text::Tokenizer& tokenizer, std::optional<int> id) {
  return id ? nlohmann::ordered_json(token_text(tokenizer, *id)) : nullptr;
}

/// Runs `answer`; if it throws, the answer is an error.
template <class Action>
void answer_or_fail(HttpExchange& exchange, const Action& answer) {
  try {
    answer();
  } catch (const ApiError& error) {
    exchange.respond(error.response(error_form(exchange.request().path)));
  } catch (const std::exception& error) {
    exchange.respond(ApiError(500, error.what()).response(error_form(exchange.request().path)));
  }
}

}  // namespace

struct Service::Endpoint {
  std::string_view method;
  std::string_view path;
  bool is_public;
  void (Service::*answer)(HttpExchange& exchange);            ///< on the network thread; null: `work` answers
  void (Service::*work)(const Call& call) = nullptr;          ///< on a worker, with a model; null: `describe` answers
  void (Service::*describe)(const Posted& posted) = nullptr;  ///< on a worker; the model need not be loaded

  /// Returns whether a canonical path is this one, or below it if it ends with a slash.
  bool is_at(std::string_view other) const {
    return other == path || (path.size() > 1 && path.ends_with('/') && other.starts_with(path));
  }
};

struct Service::Posted {
  std::shared_ptr<HttpExchange> exchange;
  const Endpoint& endpoint;
  std::shared_ptr<Strand> strand;         ///< of the worker that reads it
  std::optional<RequestFields> fields{};  ///< refer to the body
  std::size_t model = 0;                  ///< in the registry
  ServedAdapterPtr adapter{};             ///< null: none
  std::optional<KeepAlive> keep_alive{};  ///< of the model
  std::atomic<bool> gone = false;         ///< the client has left

  bool is_of_ollama() const { return error_form(exchange->request().path) == ErrorForm::kOllama; }

  /// Returns whether the request has no prompt, and its model is not to be kept.
  bool only_unloads() const {
    const bool makes_text = endpoint.path == "/api/chat" || endpoint.path == "/api/generate";
    return makes_text && keep_alive && keep_alive->time == std::chrono::milliseconds(0) && is_without_prompt(*fields);
  }
};

/// Returns all endpoints. Paths are canonical; clients may add /v1.
const std::vector<Service::Endpoint>& Service::endpoints() {
  static const std::vector<Endpoint> all = {
      {"GET", "/", true, &Service::page},
      {"GET", "/health", true, &Service::health},
      {"GET", "/models", false, &Service::models},
      {"GET", "/models/", false, &Service::model},
      {"GET", "/metrics", false, &Service::metrics},
      {"GET", "/ballast/outliers", false, nullptr, &Service::outliers},
      {"GET", "/tokenizer_info", false, nullptr, &Service::tokenizer_info},
      {"POST", "/tokenize", false, nullptr, &Service::tokenize},
      {"POST", "/detokenize", false, nullptr, &Service::detokenize},
      {"POST", "/apply-template", false, nullptr, &Service::apply_template},
      {"POST", "/completions", false, nullptr, &Service::complete},
      {"POST", "/embeddings", false, nullptr, &Service::embed},
      {"POST", "/chat/completions", false, nullptr, &Service::chat},
      {"POST", "/infill", false, nullptr, &Service::infill},
      {"POST", "/responses", false, nullptr, &Service::respond},
      {"GET", "/responses/", false, &Service::response},
      {"DELETE", "/responses/", false, &Service::delete_response},
      {"POST", "/messages", false, nullptr, &Service::messages},
      {"POST", "/messages/count_tokens", false, nullptr, &Service::count_message_tokens},
      {"POST", "/rerank", false, nullptr, &Service::rerank},
      {"POST", "/v2/rerank", false, nullptr, &Service::rerank},
      {"POST", "/score", false, nullptr, &Service::score},
      {"POST", "/classify", false, nullptr, &Service::classify},
      {"POST", "/translate", false, nullptr, &Service::translate},
      {"POST", "/", false, nullptr, &Service::tei_answer},
      {"POST", "/embed", false, nullptr, &Service::tei_embed},
      {"POST", "/predict", false, nullptr, &Service::tei_predict},
      {"POST", "/similarity", false, nullptr, &Service::tei_similarity},
      {"GET", "/info", false, nullptr, &Service::tei_info},
      {"POST", "/api/chat", false, nullptr, &Service::ollama_chat},
      {"POST", "/api/generate", false, nullptr, &Service::ollama_generate},
      {"POST", "/api/embed", false, nullptr, &Service::ollama_embed},
      {"POST", "/api/show", false, nullptr, nullptr, &Service::ollama_show},
      {"GET", "/lora-adapters", false, &Service::adapters},
      {"POST", "/load_lora_adapter", false, nullptr, &Service::load_adapter},
      {"POST", "/unload_lora_adapter", false, nullptr, &Service::unload_adapter},
      {"GET", "/api/tags", false, &Service::ollama_tags},
      {"GET", "/api/ps", false, &Service::ollama_ps},
      {"GET", "/api/version", true, &Service::ollama_version},
  };
  return all;
}

/// Returns the endpoint that answers OPTIONS for any path.
const Service::Endpoint& Service::options_endpoint() {
  static const Endpoint options = {"OPTIONS", "*", true, &Service::options};
  return options;
}

Service::Service(ServiceOptions options, ModelRegistry& registry)
    : options_(std::move(options)),
      registry_(registry),
      answering_(kAnswering),
      reading_(kReading, kReadingNiceness),
      reading_large_(1, kReadingLargeNiceness),
      translating_(kTranslating) {}

void Service::finish() {
  ending_ = true;
  reading_large_.finish();
  reading_.finish();
  translating_.finish();
  answering_.finish();
}

void Service::handle(const std::shared_ptr<HttpExchange>& exchange) {
  try {
    answer(exchange);
  } catch (const ApiError& error) {
    exchange->respond(error.response(error_form(exchange->request().path)));
  }
}

std::optional<HttpResponse> Service::check_head(const HttpRequest& head) const {
  try {
    check(head);
    return std::nullopt;
  } catch (const ApiError& error) {
    return error.response(error_form(head.path));
  }
}

/// Returns the methods of a path; empty for an unknown path.
std::string Service::allowed_methods(std::string_view path) {
  std::string methods;
  for (const Endpoint& endpoint : endpoints()) {
    if (!endpoint.is_at(path)) continue;
    methods += files::concat(endpoint.method, endpoint.method == "GET" ? ", HEAD, " : ", ");
  }
  return methods.empty() ? methods : methods + "OPTIONS";
}

/// Returns the endpoint of a request after checking the client's permission.
const Service::Endpoint& Service::check(const HttpRequest& request) const {
  check_origin(request);
  const std::string path = canonical_path(request.path);
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  const auto endpoint = std::ranges::find_if(
      endpoints(), [&](const Endpoint& other) { return other.is_at(path) && other.method == method; });
  if (endpoint == endpoints().end()) {
    const std::string methods = allowed_methods(path);
    if (methods.empty()) throw ApiError(404, "this path does not exist");
    if (method == "OPTIONS") return options_endpoint();
    throw ApiError(405, files::concat(request.method, " is not possible here")).with_header("Allow", methods);
  }
  if (!endpoint->is_public) user_of(request);
  if (method == "POST") check_content_type(request);
  return *endpoint;
}

void Service::answer(const std::shared_ptr<HttpExchange>& exchange) {
  const Endpoint& endpoint = check(exchange->request());
  if (endpoint.answer != nullptr) return (this->*endpoint.answer)(*exchange);
  if (posted_ >= kMostPosted) {
    count_rejection("busy");
    throw ApiError(429, "too many requests came at once").with_code("queue_full").with_retry_after(1);
  }
  post(exchange, endpoint);
}

/// Posts a request to the workers. A request whose client disconnects before it is read is dropped.
void Service::post(const std::shared_ptr<HttpExchange>& exchange, const Endpoint& endpoint) {
  const bool is_large = exchange->request().body.size() > kLargeBody;
  const auto strand = std::make_shared<Strand>(is_large ? reading_large_ : reading_);
  const auto posted = std::make_shared<Posted>(exchange, endpoint, strand);
  exchange->on_gone([left = std::weak_ptr<Posted>(posted)] {
    if (const std::shared_ptr<Posted> request = left.lock()) request->gone = true;
  });
  ++posted_;
  std::shared_ptr<void> place(nullptr, [this](void*) { --posted_; });
  end_with_strand(*strand, exchange, {});
  strand->post([this, posted, place = std::move(place)]() mutable {
    place.reset();
    if (!posted->gone) read(posted);
  });
}

/// Parses a request on a worker.
void Service::read(const std::shared_ptr<Posted>& posted) {
  HttpExchange& exchange = *posted->exchange;
  const HttpRequest& request = exchange.request();
  log_body(request);
  answer_or_fail(exchange, [&] {
    registry_.check_open();
    hold(exchange, body_bytes(request.body, kTextCopies));
    const bool has_body = request.method == "POST";
    posted->fields.emplace(has_body ? std::string_view(request.body) : std::string_view("{}"));
    const char* field = posted->is_of_ollama() && posted->fields->has("name") ? "name" : "model";
    const std::string name =
        has_body ? posted->fields->text(field).value_or("") : query_value(request.query, "model").value_or("");
    posted->adapter = adapters_.find(name);
    posted->model = posted->adapter != nullptr ? 0 : registry_.find(name);
    if (posted->adapter == nullptr) posted->adapter = adapters_.chosen(*posted->fields);
    if (posted->endpoint.describe != nullptr) return (this->*posted->endpoint.describe)(*posted);
    if (posted->is_of_ollama()) posted->keep_alive = read_keep_alive(*posted->fields);
    if (posted->only_unloads()) return unload(*posted);
    get_model(posted);
  });
}

/// Answers a request without a prompt that is to end its model's stay in memory, as Ollama does.
void Service::unload(const Posted& posted) {
  registry_.keep_alive(posted.model, posted.keep_alive->time);
  const bool is_chat = posted.endpoint.path == "/api/chat";
  posted.exchange->respond({.body = json_text(ollama_loaded_json(registry_.name(posted.model), is_chat, "unload"))});
}

/// Answers a request if its model is loaded; otherwise the request waits for it.
void Service::get_model(const std::shared_ptr<Posted>& posted) {
  const auto held = std::make_shared<HeldRequest>();
  held->on_ready = [this, posted](const ModelLease& model, const ApiError* error) {
    post_or_fail(*posted->strand, [&] {
      if (model == nullptr && error == nullptr) return posted->strand->fail();
      posted->strand->post([this, posted, model, refusal = error != nullptr ? std::optional(*error) : std::nullopt] {
        if (posted->gone) return;
        answer_or_fail(*posted->exchange, [&] {
          if (refusal) throw ApiError(*refusal);
          answer_with(*posted, model);
        });
      });
    });
  };
  // Of the two, only the registry owns the request while it waits.
  std::function<void()> leave = [this, left = std::weak_ptr<Posted>(posted), waiting = std::weak_ptr(held)] {
    const std::shared_ptr<Posted> request = left.lock();
    if (request == nullptr) return;
    request->gone = true;
    if (const std::shared_ptr<HeldRequest> found = waiting.lock()) registry_.forget(request->model, *found);
  };
  if (const ModelLease model = registry_.acquire(posted->model, held)) return answer_with(*posted, model);
  posted->exchange->on_gone(std::move(leave));
}

/// Answers a request with its model.
void Service::answer_with(Posted& posted, const ModelLease& model) {
  const auto strand = std::make_shared<Strand>(answering_, Strand::Begin::kHeld);
  const std::shared_ptr<void> release(nullptr, [strand](void*) { strand->release(); });
  end_with_strand(*strand, posted.exchange, {});
  if (posted.keep_alive) registry_.keep_alive(posted.model, posted.keep_alive->time);
  answer_or_fail(*posted.exchange, [&] {
    const Call call = {.exchange = posted.exchange,
                       .strand = strand,
                       .fields = *posted.fields,
                       .model = model,
                       .adapter = posted.adapter};
    (this->*posted.endpoint.work)(call);
  });
  posted.fields.reset();
  posted.exchange->drop_body();
}

/// Refuses a request that needs more memory than one request may have, or than is left.
void Service::hold(HttpExchange& exchange, std::size_t bytes) {
  if (!options_.memory) return;
  const std::size_t most = options_.memory->bytes_of_one();
  if (bytes > most) {
    throw ApiError(400, files::concat("the request and its answer would take about ", in_megabytes(bytes),
                                      " of memory, and one may take ", in_megabytes(most),
                                      ": request fewer or shorter texts or log-probabilities, or a stream"))
        .with_code("request_too_large");
  }
  if (exchange.hold(bytes)) return;
  count_rejection("memory_full");
  throw ApiError(429, "the memory for requests is in use: try again later")
      .with_code("memory_full")
      .with_retry_after(1);
}

/// Refuses requests of pages of other sites, and hosts that another site made to resolve to this machine (DNS
/// rebinding).
void Service::check_origin(const HttpRequest& request) const {
  const std::string_view host = request.header("host");
  if (!options_.hosts.empty() && std::ranges::find(options_.hosts, host_without_port(host)) == options_.hosts.end()) {
    throw ApiError(403, "the Host header names another server");
  }
  const std::string_view origin = request.header("origin");
  const std::size_t scheme = origin.find("://");
  if (!origin.empty() && (scheme == std::string_view::npos || origin.substr(scheme + 3) != host)) {
    throw ApiError(403, "requests from pages of other sites are refused");
  }
  // Browsers send this header, too; links to the server's page may be anywhere.
  const std::string_view site = request.header("sec-fetch-site");
  if (request.method == "POST" && (site == "cross-site" || site == "same-site")) {
    throw ApiError(403, "requests from pages of other sites are refused");
  }
}

/// Returns the name of the key; without keys all clients are the same user.
std::string Service::user_of(const HttpRequest& request) const {
  if (options_.keys.empty()) return {};
  // As in llama-server, X-Api-Key has only the key.
  const std::string_view authorization = request.header("authorization");
  const std::string_view alone = request.header("x-api-key");
  const std::optional<std::string_view> name = options_.keys.name_of(
      authorization.empty() && !alone.empty() ? files::concat("Bearer ", alone) : std::string(authorization));
  if (!name) throw ApiError(401, "a valid key is required: Authorization: Bearer KEY").with_code("invalid_api_key");
  return std::string(*name);
}

/// Users share no pages, because response times would reveal the prompts of others.
void Service::set_user(GenerationRequest& request, const HttpRequest& http) const {
  request.user = user_of(http);
  request.salt = request.user + '\0' + request.salt;
}

PromptEncoder Service::prompt_encoder(const Call& call) const {
  return {*call.model, options_.most_tokenized};
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
  registry_.check_open();
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
  registry_.check_open();
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < registry_.size(); ++i) all.push_back(registry_.about(i));
  for (const ServedAdapterPtr& adapter : adapters_.all()) {
    nlohmann::ordered_json about = registry_.about(0);
    about["parent"] = registry_.name(0);
    about["id"] = adapter->name;
    about["root"] = adapter->files.path.string();
    about.erase("aliases");
    all.push_back(std::move(about));
  }
  exchange.respond({.body = json_text({{"object", "list"}, {"data", std::move(all)}})});
}

void Service::model(HttpExchange& exchange) {
  registry_.check_open();
  const std::size_t found = registry_.find(id_after(exchange.request().path, "/models/"));
  exchange.respond({.body = json_text(registry_.about(found))});
}

void Service::options(HttpExchange& exchange) {
  exchange.respond({.body = {}, .headers = {{"Allow", allowed_methods(canonical_path(exchange.request().path))}}});
}

void Service::metrics(HttpExchange& exchange) {
  registry_.check_open();
  std::vector<ModelStats> models;
  for (const ModelLease& model : registry_.loaded()) {
    models.push_back({.model = registry_.has_several() ? model->name : "", .stats = model->scheduler.stats()});
  }
  exchange.respond(
      {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics_text(models, request_stats())});
}

RequestStats Service::request_stats() const {
  RequestStats stats;
  if (options_.memory) {
    stats.memory_bytes = options_.memory->used();
    stats.memory_refusals = options_.memory->refused();
  }
  if (options_.dropped_log_lines) stats.dropped_log_lines = options_.dropped_log_lines();
  const std::lock_guard lock(mutex_);
  stats.rejections = rejections_;
  return stats;
}

void Service::adapters(HttpExchange& exchange) {
  registry_.check_open();
  exchange.respond({.body = json_text(adapters_.list_json())});
}

void Service::add_adapter(const ReadyModel& model, const std::string& name, const AdapterFiles& files) {
  if (registry_.knows(name)) throw Error("adapter", files::concat("'", name, "' is the model's name"));
  adapters_.add(model.loaded.model, name, files);
}

/// Loads an adapter, as vLLM does.
void Service::load_adapter(const Call& call) {
  if (!options_.runtime_adapters) {
    throw ApiError(403,
                   "adapters are loaded by the server's command (--adapter), or by clients with --runtime-adapters");
  }
  if (registry_.has_several()) throw ApiError(400, "adapters are of an only model, and there are several");
  const std::optional<std::string> name = call.fields.text("lora_name");
  const std::optional<std::string> path = call.fields.text("lora_path");
  if (!name || !path) throw ApiError(400, "lora_name and lora_path are needed", name ? "lora_path" : "lora_name");
  try {
    add_adapter(*call.model, *name, {.path = *path});
  } catch (const Error& error) {
    throw ApiError(400, error.what(), "lora_path");
  }
  call.exchange->respond({.content_type = "text/plain; charset=utf-8",
                          .body = files::concat("Success: LoRA adapter '", *name, "' added.")});
}

void Service::unload_adapter(const Call& call) {
  if (!options_.runtime_adapters) throw ApiError(403, "clients may unload adapters with --runtime-adapters only");
  const std::optional<std::string> name = call.fields.text("lora_name");
  if (!name) throw ApiError(400, "lora_name is needed", "lora_name");
  adapters_.remove(*name);
  call.exchange->respond({.content_type = "text/plain; charset=utf-8",
                          .body = files::concat("Success: LoRA adapter '", *name, "' removed.")});
}

void Service::outliers(const Call& call) {
  if (call.model->outliers.is_null()) throw ApiError(404, "the server was started without --stats");
  call.exchange->respond({.body = json_text(call.model->outliers)});
}

void Service::ollama_tags(HttpExchange& exchange) {
  registry_.check_open();
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < registry_.size(); ++i) all.push_back(ollama_model_json(registry_.about(i)));
  exchange.respond({.body = json_text({{"models", std::move(all)}})});
}

void Service::ollama_ps(HttpExchange& exchange) {
  registry_.check_open();
  nlohmann::ordered_json loaded = nlohmann::ordered_json::array();
  for (const ModelLease& model : registry_.loaded()) loaded.push_back(ollama_model_json(model->description.about));
  exchange.respond({.body = json_text({{"models", std::move(loaded)}})});
}

void Service::ollama_show(const Posted& posted) {
  const ModelDescription model = registry_.describe(posted.model);
  posted.exchange->respond({.body = json_text(ollama_show_json(model.about, model.chat_template))});
}

void Service::ollama_version(HttpExchange& exchange) {
  exchange.respond({.body = json_text({{"version", version()}})});
}

void Service::tokenize(const Call& call) {
  check_fields(call.fields, kTokenize);
  const PromptEncoder encoder = prompt_encoder(call);
  const std::vector<int> ids = encoder.tokens_of(call.fields);
  nlohmann::ordered_json answer = {
      {"count", ids.size()}, {"max_model_len", call.model->scheduler.context_length()}, {"tokens", ids}};
  if (call.fields.flag("with_pieces", false)) {
    for (std::size_t i = 0; i < ids.size(); ++i) answer["tokens"][i] = piece_json(encoder.tokenizer(), ids[i]);
  }
  if (call.fields.flag("return_token_strs", false)) {
    answer["token_strs"] = nlohmann::ordered_json::array();
    for (const int id : ids) answer["token_strs"].push_back(token_text(encoder.tokenizer(), id));
  }
  call.exchange->respond({.body = json_text(answer)});
}

void Service::detokenize(const Call& call) {
  check_fields(call.fields, kDetokenize);
  const auto read_ids = [&](const files::JsonReader& value) {
    return token_ids(value, call.model->loaded.model.spec().vocab_size);
  };
  const auto ids = call.fields.read("tokens", read_ids);
  if (!ids) throw ApiError(400, "tokens: are missing", "tokens");
  const PromptEncoder encoder = prompt_encoder(call);
  encoder.check_tokenized(*ids, "/detokenize takes (--max-tokenize)");
  const text::Tokenizer& own = encoder.tokenizer();
  std::size_t bytes = 0;
  for (const int id : *ids) bytes += own.token_bytes(id).size();
  constexpr std::size_t kCopies = 8;  // of two fields: as text, as JSON, in the send buffer
  hold(*call.exchange, body_bytes(call.exchange->request().body, 1) + kCopies * bytes);
  const std::string text = text::decode(own, *ids);
  call.exchange->respond({.body = json_text({{"prompt", text}, {"content", text}})});
}

void Service::tokenizer_info(const Call& call) {
  const text::Tokenizer& own = prompt_encoder(call).tokenizer();
  const nlohmann::ordered_json info = {{"tokenizer_class", own.description()},
                                       {"bos_token", token_text_or_null(own, own.bos())},
                                       {"eos_token", token_text_or_null(own, own.eos())},
                                       {"pad_token", own.special_tokens().value("pad_token", nlohmann::json())},
                                       {"add_bos_token", own.adds_bos()},
                                       {"chat_template", own.chat_template()},
                                       {"vocab_size", own.vocab_size()}};
  call.exchange->respond({.body = json_text(info)});
}

void Service::apply_template(const Call& call) {
  check_fields(call.fields, kTemplates);
  hold(*call.exchange, body_bytes(call.exchange->request().body, kTemplateCopies));
  call.exchange->respond(
      {.body = json_text({{"prompt", prompt_encoder(call).apply(read_conversation(call.fields)).text}})});
}

}  // namespace ballast::serve
