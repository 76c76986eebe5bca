#include "serve/service/service.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
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

}  // namespace

struct Service::Endpoint {
  std::string_view method;
  std::string_view path;
  bool is_public;
  bool takes_time;  ///< runs on a worker
  void (*answer)(Service& service, const std::shared_ptr<HttpExchange>& exchange,
                 const std::shared_ptr<Strand>& strand);

  /// Returns whether a canonical path is this one, or below it if it ends with a slash.
  bool is_at(std::string_view other) const {
    return other == path || (path.size() > 1 && path.ends_with('/') && other.starts_with(path));
  }
};

/// Returns all endpoints. Paths are canonical; clients may add /v1.
const std::vector<Service::Endpoint>& Service::endpoints() {
  using ExchangePtr = std::shared_ptr<HttpExchange>;
  using StrandPtr = std::shared_ptr<Strand>;
  static const std::vector<Endpoint> all = {
      {"GET", "/", true, false, [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.page(*e); }},
      {"GET", "/health", true, false, [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.health(*e); }},
      {"GET", "/models", false, false, [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.models(*e); }},
      {"GET", "/models/", false, false, [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.model(*e); }},
      {"GET", "/metrics", false, false, [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.metrics(*e); }},
      {"GET", "/ballast/outliers", false, false,
       [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.outliers(*e); }},
      {"GET", "/tokenizer_info", false, true,
       [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.tokenizer_info(*e); }},
      {"POST", "/tokenize", false, true, [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.tokenize(*e); }},
      {"POST", "/detokenize", false, true,
       [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.detokenize(*e); }},
      {"POST", "/apply-template", false, true,
       [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.apply_template(*e); }},
      {"POST", "/completions", false, true,
       [](Service& s, const ExchangePtr& e, const StrandPtr& o) { s.complete(e, o); }},
      {"POST", "/embeddings", false, true, [](Service& s, const ExchangePtr& e, const StrandPtr& o) { s.embed(e, o); }},
      {"POST", "/chat/completions", false, true,
       [](Service& s, const ExchangePtr& e, const StrandPtr& o) { s.chat(e, o); }},
      {"POST", "/infill", false, true, [](Service& s, const ExchangePtr& e, const StrandPtr& o) { s.infill(e, o); }},
      {"POST", "/responses", false, true,
       [](Service& s, const ExchangePtr& e, const StrandPtr& o) { s.respond(e, o); }},
      {"GET", "/responses/", false, false, [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.response(*e); }},
      {"DELETE", "/responses/", false, false,
       [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.delete_response(*e); }},
      {"POST", "/messages", false, true,
       [](Service& s, const ExchangePtr& e, const StrandPtr& o) { s.messages(e, o); }},
      {"POST", "/messages/count_tokens", false, true,
       [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.count_message_tokens(*e); }},
      {"POST", "/api/chat", false, true,
       [](Service& s, const ExchangePtr& e, const StrandPtr& o) { s.ollama_chat(e, o); }},
      {"POST", "/api/generate", false, true,
       [](Service& s, const ExchangePtr& e, const StrandPtr& o) { s.ollama_generate(e, o); }},
      {"POST", "/api/embed", false, true,
       [](Service& s, const ExchangePtr& e, const StrandPtr& o) { s.ollama_embed(e, o); }},
      {"POST", "/api/show", false, true, [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.ollama_show(*e); }},
      {"GET", "/api/tags", false, false, [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.ollama_tags(*e); }},
      {"GET", "/api/ps", false, false, [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.ollama_tags(*e); }},
      {"GET", "/api/version", true, false,
       [](Service& s, const ExchangePtr& e, const StrandPtr&) { s.ollama_version(*e); }},
  };
  return all;
}

/// Returns the endpoint that answers OPTIONS for any path.
const Service::Endpoint& Service::options_endpoint() {
  static const Endpoint options = {
      "OPTIONS", "*", true, false,
      [](Service& s, const std::shared_ptr<HttpExchange>& e, const std::shared_ptr<Strand>&) { s.options(*e); }};
  return options;
}

Service::Service(ServiceOptions options)
    : options_(std::move(options)),
      answering_(kAnswering),
      reading_(kReading, kReadingNiceness),
      reading_large_(1, kReadingLargeNiceness) {}

void Service::finish() {
  reading_large_.finish();
  reading_.finish();
  answering_.finish();
}

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
  if (!endpoint.takes_time) return endpoint.answer(*this, exchange, nullptr);
  if (posted_ >= kMostPosted) {
    count_rejection("busy");
    throw ApiError(429, "too many requests came at once").with_code("queue_full").with_retry_after(1);
  }
  post(exchange, endpoint);
}

/// Posts a request to the workers. A request whose client disconnects before it is read is dropped.
void Service::post(const std::shared_ptr<HttpExchange>& exchange, const Endpoint& endpoint) {
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  exchange->on_gone([gone] { *gone = true; });
  ++posted_;
  std::shared_ptr<void> place(nullptr, [this](void*) { --posted_; });
  const bool is_large = exchange->request().body.size() > kLargeBody;
  const auto strand = std::make_shared<Strand>(is_large ? reading_large_ : reading_);
  end_with_strand(*strand, exchange, {});
  strand->post([this, exchange, gone, place = std::move(place), &endpoint]() mutable {
    place.reset();
    if (!*gone) read(exchange, endpoint);
  });
}

/// Parses a request on a worker; the answer's strand is held until then.
void Service::read(const std::shared_ptr<HttpExchange>& exchange, const Endpoint& endpoint) {
  const auto strand = std::make_shared<Strand>(answering_, Strand::Begin::kHeld);
  const std::shared_ptr<void> release(nullptr, [strand](void*) { strand->release(); });
  end_with_strand(*strand, exchange, {});
  log_body(exchange->request());
  try {
    hold(*exchange, body_bytes(exchange->request().body, kTextCopies));
    endpoint.answer(*this, exchange, strand);
  } catch (const ApiError& error) {
    exchange->respond(error.response(error_form(exchange->request().path)));
  } catch (const std::exception& error) {
    exchange->respond(ApiError(500, error.what()).response(error_form(exchange->request().path)));
  }
  exchange->drop_body();
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

const ReadyModel& Service::ready() const {
  const ReadyModel* model = ready_;
  if (model == nullptr)
    throw ApiError(503, "the model is being loaded, or the server is shutting down").with_retry_after(1);
  return *model;
}

PromptEncoder Service::prompt_encoder() const {
  return {ready(), options_.most_tokenized, options_.reply_format};
}

const text::Tokenizer& Service::tokenizer() const {
  return prompt_encoder().tokenizer();
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
  check_model(id_after(exchange.request().path, "/models/"));
  exchange.respond({.body = json_text(ready().about)});
}

void Service::options(HttpExchange& exchange) {
  exchange.respond({.body = {}, .headers = {{"Allow", allowed_methods(canonical_path(exchange.request().path))}}});
}

void Service::check_model(std::string_view name) const {
  // Ollama's clients may add a tag.
  constexpr std::string_view kTag = ":latest";
  if (name.ends_with(kTag)) name.remove_suffix(kTag.size());
  if (name == options_.model_name || name.empty() || options_.any_model_name) return;
  throw ApiError(
      404,
      files::concat("there is no model ", files::in_quotes(name), " here, but ", files::in_quotes(options_.model_name)),
      "model")
      .with_code("model_not_found");
}

void Service::check_model(const RequestFields& fields) const {
  check_model(fields.text("model").value_or(""));
}

void Service::metrics(HttpExchange& exchange) {
  const SchedulerStats stats = ready().scheduler.stats();
  exchange.respond(
      {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics_text(stats, request_stats())});
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

void Service::outliers(HttpExchange& exchange) {
  if (ready().outliers.is_null()) throw ApiError(404, "the server was started without --stats");
  exchange.respond({.body = json_text(ready().outliers)});
}

void Service::ollama_tags(HttpExchange& exchange) {
  exchange.respond(
      {.body = json_text({{"models", nlohmann::ordered_json::array({ollama_model_json(ready().about)})}})});
}

void Service::ollama_show(HttpExchange& exchange) {
  const RequestFields fields(exchange.request().body);
  check_model(fields.text(fields.has("model") ? "model" : "name").value_or(""));
  const ReadyModel& model = ready();
  const text::Tokenizer* own = model.loaded.own_tokenizer.get();
  const bool makes_texts = model.loaded.model.spec().causal && model.loaded.model.spec().has_head;
  const bool takes_tools = own != nullptr && text::template_takes_tools(*own);
  const bool thinks = own != nullptr && text::can_think(text::find_reply_format(*own, options_.reply_format));
  exchange.respond({.body = json_text(ollama_show_json(ready().about, own != nullptr ? own->chat_template() : "",
                                                       takes_tools, thinks, !makes_texts))});
}

void Service::ollama_version(HttpExchange& exchange) {
  exchange.respond({.body = json_text({{"version", version()}})});
}

void Service::tokenize(HttpExchange& exchange) {
  const RequestFields fields(exchange.request().body);
  check_fields(fields, kTokenize);
  check_model(fields);
  const std::vector<int> ids = prompt_encoder().tokens_of(fields);
  nlohmann::ordered_json answer = {
      {"count", ids.size()}, {"max_model_len", ready().scheduler.context_length()}, {"tokens", ids}};
  if (fields.flag("with_pieces", false)) {
    for (std::size_t i = 0; i < ids.size(); ++i) answer["tokens"][i] = piece_json(tokenizer(), ids[i]);
  }
  if (fields.flag("return_token_strs", false)) {
    answer["token_strs"] = nlohmann::ordered_json::array();
    for (const int id : ids) answer["token_strs"].push_back(token_text(tokenizer(), id));
  }
  exchange.respond({.body = json_text(answer)});
}

void Service::detokenize(HttpExchange& exchange) {
  const RequestFields fields(exchange.request().body);
  check_fields(fields, kDetokenize);
  check_model(fields);
  const auto read_ids = [&](const files::JsonReader& value) {
    return token_ids(value, ready().loaded.model.spec().vocab_size);
  };
  const auto ids = fields.read("tokens", read_ids);
  if (!ids) throw ApiError(400, "tokens: are missing", "tokens");
  prompt_encoder().check_tokenized(*ids, "/detokenize takes (--max-tokenize)");
  std::size_t bytes = 0;
  for (const int id : *ids) bytes += tokenizer().token_bytes(id).size();
  constexpr std::size_t kCopies = 8;  // of two fields: as text, as JSON, in the send buffer
  hold(exchange, body_bytes(exchange.request().body, 1) + kCopies * bytes);
  const std::string text = text::decode(tokenizer(), *ids);
  exchange.respond({.body = json_text({{"prompt", text}, {"content", text}})});
}

void Service::tokenizer_info(HttpExchange& exchange) {
  const text::Tokenizer& own = tokenizer();
  const nlohmann::ordered_json info = {{"tokenizer_class", own.description()},
                                       {"bos_token", token_text_or_null(own, own.bos())},
                                       {"eos_token", token_text_or_null(own, own.eos())},
                                       {"pad_token", own.special_tokens().value("pad_token", nlohmann::json())},
                                       {"add_bos_token", own.adds_bos()},
                                       {"chat_template", own.chat_template()},
                                       {"vocab_size", own.vocab_size()}};
  exchange.respond({.body = json_text(info)});
}

void Service::apply_template(HttpExchange& exchange) {
  const RequestFields fields(exchange.request().body);
  check_fields(fields, kTemplates);
  check_model(fields);
  hold(exchange, body_bytes(exchange.request().body, kTemplateCopies));
  exchange.respond({.body = json_text({{"prompt", prompt_encoder().apply(read_conversation(fields)).text}})});
}

}  // namespace ballast::serve
