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
#include "serve/api/embedding_format.h"
#include "serve/api/field_table.h"
#include "serve/api/json_text.h"
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

/// Returns a random id that cannot be guessed: "cmpl-" and 24 digits.
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

/// Returns the canonical form of a path, without double and trailing slashes and without the version, which clients may
/// leave out: "//v1//models/" -> "/models".
std::string canonical_path(std::string_view path) {
  constexpr std::string_view kVersion = "/v1";
  std::string canonical;
  for (const char letter : path) {
    if (letter != '/' || !canonical.ends_with('/')) canonical += letter;
  }
  if (canonical.size() > 1 && canonical.ends_with('/')) canonical.pop_back();
  if (canonical.starts_with("/v1/")) canonical.erase(0, kVersion.size());
  return canonical;
}

/// Decodes "a%2Fb" to "a/b". Invalid escapes are kept.
std::string without_escapes(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const std::string_view digits = text.substr(std::min(i + 1, text.size()), 2);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    const bool is_escape = text[i] == '%' && error == std::errc() && digits.size() == 2 && end == digits.end();
    plain += is_escape ? static_cast<char>(value) : text[i];
    if (is_escape) i += 2;
  }
  return plain;
}

/// Cuts `ids` to `most`: keeps the last ones if `keep_end` is set, else the first ones.
void cut(std::vector<int>& ids, std::size_t most, bool keep_end) {
  if (ids.size() <= most) return;
  if (keep_end) ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(most));
  ids.resize(most);
}

void add_leading(const text::Tokenizer& tokenizer, std::vector<int>& ids) {
  const std::vector<int>& leading = tokenizer.leading_special_tokens();
  ids.insert(ids.begin(), leading.begin(), leading.end());
}

/// Returns a token in llama-server's form: its text, or its bytes if they are not UTF-8.
nlohmann::ordered_json piece_json(const text::Tokenizer& tokenizer, int id) {
  const std::string bytes = tokenizer.token_bytes(id);
  if (files::is_utf8(bytes)) return {{"id", id}, {"piece", bytes}};
  nlohmann::ordered_json numbers = nlohmann::ordered_json::array();
  for (const char byte : bytes) numbers.push_back(static_cast<unsigned char>(byte));
  return {{"id", id}, {"piece", std::move(numbers)}};
}

void check_length(const std::vector<int>& ids, std::size_t most, std::string_view whose) {
  if (ids.size() <= most) return;
  throw ApiError(400, files::concat("there are more than the ", most, " tokens that ", whose))
      .with_code("context_length_exceeded");
}

nlohmann::ordered_json token_text_or_null(const text::Tokenizer& tokenizer, std::optional<int> id) {
  return id ? nlohmann::ordered_json(token_text(tokenizer, *id)) : nullptr;
}

/// Starts an answer. If that fails, the requests are cancelled, because their results could not be reported.
void start(ModelAnswer& answer, const std::vector<std::shared_ptr<Ticket>>& tickets) {
  try {
    answer.start(tickets);
  } catch (...) {
    cancel_all(tickets);
    throw;
  }
}

AnswerShape shape_of(const CompletionRequest& asked) {
  return {.echo = asked.echo,
          .stream = asked.delivery.stream,
          .logprobs = asked.generation.options.logprobs,
          .prompt_logprobs = asked.prompt_logprobs};
}

AnswerShape shape_of(const ChatRequest& asked) {
  return {.stream = asked.delivery.stream,
          .logprobs = asked.generation.options.logprobs,
          .prompt_logprobs = asked.prompt_logprobs};
}

/// Returns the result of encode() for a client's text; throws if a token has no row in the model's embedding.
template <typename Encode>
std::vector<int> readable(const Encode& encode) {
  try {
    return encode();
  } catch (const Error& error) {
    throw ApiError(400, error.what());
  }
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
    exchange->respond(error.response());
  } catch (const std::exception& error) {
    exchange->respond(ApiError(500, error.what()).response());
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

const text::Tokenizer& Service::tokenizer() const {
  const ReadyModel& model = ready();
  if (model.loaded.own_tokenizer == nullptr) throw ApiError(400, "the model has no tokenizer");
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
  const std::string path = canonical_path(exchange.request().path);
  check_model(without_escapes(std::string_view(path).substr(std::string_view("/models/").size())));
  exchange.respond({.body = json_text(ready().about)});
}

void Service::options(HttpExchange& exchange) {
  exchange.respond({.body = {}, .headers = {{"Allow", allowed_methods(canonical_path(exchange.request().path))}}});
}

void Service::check_model(std::string_view name) const {
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

void Service::tokenize(HttpExchange& exchange) {
  const RequestFields fields(exchange.request().body);
  check_fields(fields, kTokenize);
  check_model(fields);
  const std::vector<int> ids = tokens_of(fields);
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

/// Reads vLLM's names of the fields, or llama-server's.
std::vector<int> Service::tokens_of(const RequestFields& fields) const {
  const TokenLimit limit = tokenize_limit();
  const bool vllm = fields.has("prompt");
  const std::optional<std::string> text = fields.text(vllm ? "prompt" : "content");
  if (!text && fields.has("messages")) {
    const text::ChatPrompt chat = apply(read_conversation(fields));
    std::vector<int> ids = readable([&] { return text::encode(tokenizer(), chat, limit.most); });
    check_length(ids, limit.most, limit.whose);
    if (fields.flag("add_special_tokens", false)) add_leading(tokenizer(), ids);
    return ids;
  }
  if (!text) throw ApiError(400, "prompt: is missing", "prompt");
  const bool special = vllm ? fields.flag("add_special_tokens", true) : fields.flag("add_special", false);
  if (fields.flag("parse_special", true)) {
    return encode(*text, {.add_special_tokens = special}, std::numeric_limits<std::size_t>::max(), limit);
  }
  const text::ByteRange whole = {.begin = 0, .end = text->size()};
  std::vector<int> ids = readable([&] { return tokenizer().encode(*text, std::span(&whole, 1), limit.most); });
  check_length(ids, limit.most, limit.whose);
  if (special) add_leading(tokenizer(), ids);
  return ids;
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
  check_length(*ids, options_.most_tokenized, "/detokenize takes (--max-tokenize)");
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
  exchange.respond({.body = json_text({{"prompt", apply(read_conversation(fields)).text}})});
}

text::ChatPrompt Service::apply(const text::Conversation& conversation) const {
  if (tells_of_tools(conversation) && !tokenizer().chat_template().contains("tool")) {
    throw ApiError(400, "messages: contain tool calls, which the model's chat template does not support", "messages");
  }
  try {
    return text::apply_chat_template(tokenizer(), conversation);
  } catch (const Error& error) {
    throw ApiError(400, error.what(), "messages");
  }
}

Service::TokenLimit Service::tokenize_limit() const {
  return {.most = options_.most_tokenized, .whose = "/tokenize takes (--max-tokenize)"};
}

/// Returns the number of tokens beyond which a prompt is not encoded: it does not fit, or the rest is cut off. If its
/// end is to be kept, it must be encoded completely.
Service::TokenLimit Service::prompt_limit(const PromptOptions& options, std::size_t most) const {
  const std::size_t context = ready().scheduler.context_length();
  if (!options.truncate) return {.most = context, .whose = "the context holds"};
  if (!options.keep_end) return {.most = most, .whose = {}, .refuses = false};
  return {.most = std::max(context, options_.most_tokenized),
          .whose = "a prompt that is cut may have (--max-tokenize)"};
}

/// Encodes a prompt to at most `most` tokens. The special tokens around a text are kept when it is cut.
std::vector<int> Service::encode(const Prompt& prompt, const PromptOptions& options, std::size_t most,
                                 const TokenLimit& limit) const {
  const auto* given = std::get_if<std::vector<int>>(&prompt);
  std::vector<int> ids =
      given != nullptr ? *given
                       : readable([&] { return tokenizer().encode(std::get<std::string>(prompt), {}, limit.most); });
  if (given == nullptr && limit.refuses) check_length(ids, limit.most, limit.whose);
  if (given == nullptr && options.add_special_tokens) {
    const ModelSpec& spec = ready().loaded.model.spec();
    const bool has_suffix = options.makes_vector || !spec.causal || !spec.has_head;  // else the text continues
    const std::vector<int> suffix = has_suffix ? tokenizer().suffix() : std::vector<int>();
    const std::size_t around = tokenizer().leading_special_tokens().size() + suffix.size();
    cut(ids, most - std::min(most, around), options.keep_end);
    add_leading(tokenizer(), ids);
    ids.insert(ids.end(), suffix.begin(), suffix.end());
  }
  cut(ids, most, options.keep_end);
  return ids;
}

void Service::set_chat_prompt(ChatRequest& asked) const {
  const text::ChatPrompt prompt = apply(asked.conversation);
  const std::size_t most = most_prompt_tokens(asked.prompt_options, asked.limit);
  const TokenLimit limit = prompt_limit(asked.prompt_options, most);
  std::vector<int> ids = readable([&] { return text::encode(tokenizer(), prompt, limit.most); });
  if (limit.refuses) check_length(ids, limit.most, limit.whose);
  if (asked.prompt_options.add_special_tokens) add_leading(tokenizer(), ids);
  cut(ids, most, asked.prompt_options.keep_end);
  asked.generation.prompt = std::move(ids);
  if (asked.parses_reply) {
    asked.generation.reply = text::make_reply_parser(tokenizer(), prompt, options_.reply_format);
  }
}

/// Returns the length to which truncate_prompt_tokens cuts a prompt.
std::size_t Service::most_prompt_tokens(const PromptOptions& options, const AnswerLimit& limit) const {
  if (!options.truncate) return std::numeric_limits<std::size_t>::max();
  if (*options.truncate > 0) return static_cast<std::size_t>(*options.truncate);
  const auto context = static_cast<std::int64_t>(ready().scheduler.context_length());
  const std::int64_t answer =
      std::clamp<std::int64_t>(limit.tokens.value_or(1), 1, std::max<std::int64_t>(1, context / 2));
  return static_cast<std::size_t>(context - answer);
}

/// Sets max_tokens, and refuses lengths that cannot be generated. `may_be_empty`: max_tokens 0 is allowed, for scores
/// of the prompt.
void Service::check_lengths(GenerationRequest& request, const AnswerLimit& limit, std::size_t usual,
                            bool may_be_empty) const {
  const Scheduler& scheduler = ready().scheduler;
  if (!ready().loaded.model.spec().causal) {
    throw ApiError(400, "the model is an encoder, which does not generate text: use /v1/embeddings", "model");
  }
  if (!ready().loaded.model.spec().has_head) {
    throw ApiError(400, files::concat("the model ", model::kNoHead, ": use /v1/embeddings"), "model");
  }
  if (request.prompt.empty()) throw ApiError(400, "prompt: has no tokens", "prompt");
  const std::size_t most = scheduler.most_tokens(request.choices, request.prompt.size());
  request.options.max_tokens =
      answer_tokens(limit, request.prompt.size(), scheduler.context_length(), std::min(usual, most), most);
  if (request.options.max_tokens == 0 && !may_be_empty) {
    throw ApiError(400, files::concat(limit.field, ": 0 is for prompts that are echoed"), std::string(limit.field));
  }
}

void Service::forbid_words(const RequestFields& fields, GenerationRequest& request) const {
  if (!fields.has("bad_words")) return;
  std::vector<std::vector<int>> words = read_bad_words(fields, tokenizer());
  std::ranges::move(words, std::back_inserter(request.options.forbidden_sequences));
}

void Service::complete(const std::shared_ptr<HttpExchange>& exchange, const std::shared_ptr<Strand>& strand) {
  constexpr std::size_t kMostTokens = 16;  // OpenAI's default
  const ReadyModel& model = ready();
  const RequestFields fields(exchange->request().body);
  check_model(fields);
  CompletionRequest asked = read_completion(fields, model.loaded.model.spec().vocab_size);
  set_defaults(fields, model.loaded.generation_defaults, asked.generation.options);
  forbid_words(fields, asked.generation);
  const std::size_t read_bytes = body_bytes(exchange->request().body, kTextCopies);
  const AnswerShape shape = shape_of(asked);
  hold(*exchange, read_bytes + asked.prompts.size() * generation_bytes(std::span(&asked.generation, 1), shape));
  const std::size_t most_prompt = most_prompt_tokens(asked.prompt_options, asked.limit);
  std::vector<GenerationRequest> requests;
  std::vector<std::string> echoed;
  std::size_t bytes = 0;
  for (const Prompt& prompt : asked.prompts) {
    GenerationRequest& request = requests.emplace_back(asked.generation);
    request.prompt = encode(prompt, asked.prompt_options, most_prompt, prompt_limit(asked.prompt_options, most_prompt));
    set_user(request, exchange->request());
    check_lengths(request, asked.limit, kMostTokens, asked.echo || asked.prompt_logprobs);
    if (!asked.echo) continue;
    const auto* text = std::get_if<std::string>(&prompt);
    const bool is_whole = text != nullptr && !asked.prompt_options.truncate;
    echoed.push_back(is_whole ? *text : text::decode(tokenizer(), request.prompt));
    bytes += kTextCopies * request.choices * echoed.back().size();
  }
  bytes += generation_bytes(requests, shape);
  hold(*exchange, read_bytes + bytes);
  const std::optional<std::size_t> logprobs = shape.logprobs;
  const auto answer = std::make_shared<TextAnswer>(
      exchange, strand, std::make_unique<CompletionFormat>(tokenizer(), logprobs.has_value()), tokenizer(),
      AnswerHead{.id = random_id("cmpl-"),
                 .model = options_.model_name,
                 .created = std::time(nullptr),
                 .delivery = asked.delivery,
                 .prompts = asked.prompts.size(),
                 .choices = asked.generation.choices,
                 .logprobs = logprobs,
                 .prompt_logprobs = asked.prompt_logprobs,
                 .show_special_tokens = asked.generation.options.show_special_tokens});
  for (std::size_t i = 0; i < echoed.size(); ++i) answer->echo(i, echoed[i], requests[i].prompt);
  submit(*exchange, *answer, std::move(requests), bytes);
}

void Service::chat(const std::shared_ptr<HttpExchange>& exchange, const std::shared_ptr<Strand>& strand) {
  const ReadyModel& model = ready();
  const RequestFields fields(exchange->request().body);
  check_model(fields);
  ChatRequest asked = read_chat(fields, model.loaded.model.spec().vocab_size);
  set_defaults(fields, model.loaded.generation_defaults, asked.generation.options);
  forbid_words(fields, asked.generation);
  const std::size_t read_bytes = body_bytes(exchange->request().body, kTemplateCopies);
  hold(*exchange, read_bytes);
  set_chat_prompt(asked);
  set_user(asked.generation, exchange->request());
  check_lengths(asked.generation, asked.limit, std::numeric_limits<std::size_t>::max(),
                asked.prompt_logprobs.has_value());
  const std::size_t bytes = generation_bytes(std::span(&asked.generation, 1), shape_of(asked));
  hold(*exchange, read_bytes + bytes);
  const std::optional<std::size_t> logprobs = asked.generation.options.logprobs;
  const auto answer = std::make_shared<TextAnswer>(
      exchange, strand, std::make_unique<ChatFormat>(tokenizer(), logprobs.has_value()), tokenizer(),
      AnswerHead{.id = random_id("chatcmpl-"),
                 .model = options_.model_name,
                 .created = std::time(nullptr),
                 .delivery = asked.delivery,
                 .choices = asked.generation.choices,
                 .logprobs = logprobs,
                 .prompt_logprobs = asked.prompt_logprobs,
                 .show_special_tokens = asked.generation.options.show_special_tokens,
                 .shows_thinking = asked.shows_thinking});
  if (!asked.echo.empty()) answer->echo(0, asked.echo, {});
  std::vector<GenerationRequest> requests;
  requests.push_back(std::move(asked.generation));
  submit(*exchange, *answer, std::move(requests), bytes);
}

void Service::embed(const std::shared_ptr<HttpExchange>& exchange, const std::shared_ptr<Strand>& strand) {
  const ReadyModel& model = ready();
  const RequestFields fields(exchange->request().body);
  check_model(fields);
  const ModelSpec& spec = model.loaded.model.spec();
  const EmbeddingRequest asked =
      read_embedding(fields, spec.vocab_size, model.loaded.model.text_dense().output_size(spec.hidden_size));
  const TextVectorSpec vectors = spec.text_vectors.value_or(TextVectorSpec{});
  std::size_t most_tokens = model.scheduler.context_length();
  if (vectors.most_tokens > 0) most_tokens = std::min(most_tokens, vectors.most_tokens);
  std::size_t kept = std::numeric_limits<std::size_t>::max();
  if (const auto& truncate = asked.prompt_options.truncate) {
    kept = *truncate < 0 ? most_tokens : static_cast<std::size_t>(*truncate);
  }
  std::vector<GenerationRequest> requests;
  for (const Prompt& input : asked.inputs) {
    GenerationRequest& request = requests.emplace_back();
    request.prompt = encode(input, asked.prompt_options, kept, prompt_limit(asked.prompt_options, kept));
    request.salt = asked.salt;
    request.embed = asked.pooling.value_or(vectors.pooling);
    set_user(request, exchange->request());
    if (request.prompt.empty() || request.prompt.size() > most_tokens) {
      throw ApiError(
          400, files::concat("input: has ", request.prompt.size(), " tokens, 1 to ", most_tokens, " are possible"),
          "input");
    }
  }
  const std::size_t bytes = embedding_bytes(requests, spec.hidden_size, asked.base64);
  hold(*exchange, body_bytes(exchange->request().body, kTextCopies) + bytes);
  const auto answer =
      std::make_shared<EmbeddingAnswer>(exchange, strand, options_.model_name, asked.inputs.size(), asked.base64);
  submit(*exchange, *answer, std::move(requests), bytes);
}

/// Submits all requests or none. `bytes` is the memory that they hold from then on.
void Service::submit(HttpExchange& exchange, ModelAnswer& answer, std::vector<GenerationRequest> requests,
                     std::size_t bytes) {
  std::vector<Submission> submissions;
  for (GenerationRequest& request : requests) {
    const std::size_t prompt = submissions.size();
    submissions.push_back({.request = std::move(request), .listener = answer.listener(prompt)});
  }
  try {
    auto tickets = ready().scheduler.submit(std::move(submissions));
    if (tickets) {
      exchange.hold(bytes);
      return start(answer, *std::move(tickets));
    }
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
