// The endpoints that generate texts and vectors.
#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <limits>
#include <span>
#include <utility>

#include "engine/text_prompts.h"
#include "files/text.h"
#include "serve/api/chat_format.h"
#include "serve/api/completion_format.h"
#include "serve/api/embedding_format.h"
#include "serve/api/infill_format.h"
#include "serve/api/json_text.h"
#include "serve/api/messages_format.h"
#include "serve/api/ollama_format.h"
#include "serve/api/responses_format.h"
#include "serve/service/embedding_answer.h"
#include "serve/service/request_memory.h"
#include "serve/service/service.h"
#include "serve/service/text_answer.h"

namespace ballast::serve {
namespace {

constexpr std::size_t kNoUsualLimit = std::numeric_limits<std::size_t>::max();

/// Starts an answer. If that fails, the requests are cancelled, because their results could not be reported.
void start(ModelAnswer& answer, const std::vector<std::shared_ptr<Ticket>>& tickets) {
  try {
    answer.start(tickets);
  } catch (...) {
    cancel_all(tickets);
    throw;
  }
}

AnswerShape shape_of(const GenerationRequest& generation, bool stream, const std::string& constraint_field) {
  return {.stream = stream,
          .choices = generation.choices,
          .logprobs = generation.options.logprobs,
          .show_special_tokens = generation.options.show_special_tokens,
          .constraint_field = constraint_field};
}

AnswerShape shape_of(const ChatRequest& asked) {
  AnswerShape shape = shape_of(asked.generation, asked.delivery.stream, constraint_field(asked));
  shape.prompt_logprobs = asked.prompt_logprobs;
  shape.shows_thinking = asked.shows_thinking;
  shape.repeats_answer = asked.repeats_answer;
  return shape;
}

AnswerShape shape_of(const CompletionRequest& asked) {
  AnswerShape shape = shape_of(asked.generation, asked.delivery.stream, asked.constraint_field);
  shape.echo = asked.echo;
  shape.prompts = asked.prompts.size();
  shape.prompt_logprobs = asked.prompt_logprobs;
  return shape;
}

/// Returns the prompt before texts whose vectors are made.
std::string named_prompt(const ModelSpec& spec, const std::optional<std::string>& name) {
  try {
    return engine::prompt_named(spec, name);
  } catch (const Error& error) {
    throw ApiError(400, error.what(), "prompt_name");
  }
}

}  // namespace

void Service::complete(const Call& call) {
  constexpr std::size_t kMostTokens = 16;  // OpenAI's default
  const PromptEncoder encoder = prompt_encoder(call);
  CompletionRequest asked = read_completion(call.fields, encoder.facts());
  encoder.forbid_words(call.fields, asked.generation);
  encoder.compile(asked.generation.options.constraint, asked.constraint_field);
  const bool reads_source = call.model->loaded.model.spec().encoder.has_value();
  if (reads_source && (asked.echo || asked.prompt_logprobs || asked.suffix)) {
    throw ApiError(400,
                   "echo, prompt_logprobs and suffix are not for models with an encoder, whose text is another one");
  }
  const std::size_t read_bytes = body_bytes(call.exchange->request().body, kTextCopies);
  const AnswerShape shape = shape_of(asked);
  hold(*call.exchange, read_bytes + asked.prompts.size() * generation_bytes(std::span(&asked.generation, 1), shape));
  const std::size_t most_prompt = encoder.most_prompt_tokens(asked.prompt_options, asked.limit);
  std::vector<GenerationRequest> requests;
  std::vector<std::string> echoed;
  std::size_t bytes = 0;
  for (const Prompt& prompt : asked.prompts) {
    GenerationRequest& request = requests.emplace_back(asked.generation);
    const auto* text = std::get_if<std::string>(&prompt);
    if (reads_source) {
      encoder.set_source(prompt, request);
    } else if (asked.suffix && text != nullptr) {
      encoder.set_infill_prompt({.before = *text, .after = *asked.suffix}, request);
    } else {
      request.prompt = encoder.encode(prompt, asked.prompt_options, most_prompt);
    }
    set_user(request, call.exchange->request());
    encoder.check_lengths(request, asked.limit, kMostTokens, asked.echo || asked.prompt_logprobs);
    if (!asked.echo) continue;
    const bool is_whole = text != nullptr && !asked.prompt_options.truncate;
    echoed.push_back(is_whole ? *text : text::decode(encoder.tokenizer(), request.prompt));
    bytes += kTextCopies * request.choices * echoed.back().size();
  }
  bytes += generation_bytes(requests, shape);
  hold(*call.exchange, read_bytes + bytes);
  const auto answer = std::make_shared<TextAnswer>(
      call.exchange, call.strand, call.model,
      std::make_unique<CompletionFormat>(encoder.tokenizer(), openai_head(call, "cmpl-", shape, asked.delivery)),
      shape);
  for (std::size_t i = 0; i < echoed.size(); ++i) answer->echo(i, echoed[i], requests[i].prompt);
  submit(call, *answer, std::move(requests), bytes);
}

OpenAiHead Service::openai_head(const Call& call, std::string_view prefix, const AnswerShape& shape,
                                const Delivery& delivery) {
  return {.id = random_id(prefix),
          .model = call.name(),
          .created = std::time(nullptr),
          .include_usage = delivery.include_usage,
          .logprobs = shape.logprobs.has_value(),
          .prompt_logprobs = shape.prompt_logprobs};
}

/// Answers a conversation. `make_format` gets the number of the prompt's tokens, and returns the form of the answer.
void Service::answer_chat(const Call& call, ChatRequest asked, const MakeFormat& make_format) {
  const PromptEncoder encoder = prompt_encoder(call);
  const std::size_t read_bytes = body_bytes(call.exchange->request().body, kTemplateCopies);
  hold(*call.exchange, read_bytes);
  encoder.set_chat_prompt(asked);
  set_user(asked.generation, call.exchange->request());
  encoder.check_lengths(asked.generation, asked.limit, kNoUsualLimit, asked.prompt_logprobs.has_value());
  const AnswerShape shape = shape_of(asked);
  const std::size_t bytes = generation_bytes(std::span(&asked.generation, 1), shape);
  hold(*call.exchange, read_bytes + bytes);
  const auto answer = std::make_shared<TextAnswer>(call.exchange, call.strand, call.model,
                                                   make_format(asked.generation.prompt.size()), shape);
  if (!asked.echo.empty()) answer->echo(0, asked.echo, {});
  std::vector<GenerationRequest> requests;
  requests.push_back(std::move(asked.generation));
  submit(call, *answer, std::move(requests), bytes);
}

void Service::chat(const Call& call) {
  const PromptEncoder encoder = prompt_encoder(call);
  ChatRequest asked = read_chat(call.fields, encoder.facts());
  encoder.forbid_words(call.fields, asked.generation);
  const OpenAiHead head = openai_head(call, "chatcmpl-", shape_of(asked), asked.delivery);
  const bool older_names = asked.tools.older_names;
  answer_chat(call, std::move(asked), [&](std::size_t /*prompt_tokens*/) {
    return std::make_unique<ChatFormat>(encoder.tokenizer(), head, older_names);
  });
}

void Service::messages(const Call& call) {
  ChatRequest asked = read_messages_request(call.fields, prompt_encoder(call).facts(), true);
  answer_chat(call, std::move(asked),
              [&](std::size_t prompt_tokens) { return std::make_unique<MessagesFormat>(call.name(), prompt_tokens); });
}

void Service::count_message_tokens(const Call& call) {
  const PromptEncoder encoder = prompt_encoder(call);
  const ChatRequest asked = read_messages_request(call.fields, encoder.facts(), false);
  hold(*call.exchange, body_bytes(call.exchange->request().body, kTemplateCopies));
  call.exchange->respond({.body = json_text({{"input_tokens", encoder.count(asked.conversation).size()}})});
}

void Service::respond(const Call& call) {
  const std::string user = user_of(call.exchange->request());
  nlohmann::ordered_json earlier = nlohmann::ordered_json::array();
  if (const auto id = call.fields.text("previous_response_id")) {
    const std::optional<StoredResponse> found = responses_.find(*id, user);
    if (!found) {
      throw ApiError(400, files::concat("previous_response_id: there is no response ", files::in_quotes(*id)),
                     "previous_response_id")
          .with_code("previous_response_not_found");
    }
    hold(*call.exchange,
         body_bytes(call.exchange->request().body, kTextCopies) + body_bytes(found->messages, kTextCopies));
    earlier = nlohmann::ordered_json::parse(found->messages);
  }
  const PromptEncoder encoder = prompt_encoder(call);
  ResponsesRequest asked = read_responses_request(call.fields, encoder.facts(), call.name(), earlier);
  const auto keep = [this, user, stored = asked.is_stored, messages = std::move(asked.messages)](
                        const nlohmann::ordered_json& response, const nlohmann::ordered_json& message) {
    if (!stored) return;
    nlohmann::ordered_json conversation = messages;
    conversation.push_back(message);
    responses_.add(response["id"].get<std::string>(),
                   {.user = user, .response = json_text(response), .messages = json_text(conversation)});
  };
  const text::Tokenizer* tokenizer = asked.chat.generation.options.logprobs ? &encoder.tokenizer() : nullptr;
  answer_chat(call, std::move(asked.chat), [&](std::size_t /*prompt_tokens*/) {
    return std::make_unique<ResponsesFormat>(std::move(asked.head), std::move(asked.tools), keep, tokenizer);
  });
}

void Service::response(HttpExchange& exchange) {
  const std::string id = id_after(exchange.request().path, "/responses/");
  const std::optional<StoredResponse> found = responses_.find(id, user_of(exchange.request()));
  if (!found) throw ApiError(404, files::concat("there is no response ", files::in_quotes(id)));
  exchange.respond({.body = found->response});
}

void Service::delete_response(HttpExchange& exchange) {
  const std::string id = id_after(exchange.request().path, "/responses/");
  if (!responses_.remove(id, user_of(exchange.request()))) {
    throw ApiError(404, files::concat("there is no response ", files::in_quotes(id)));
  }
  exchange.respond({.body = json_text({{"id", id}, {"object", "response"}, {"deleted", true}})});
}

void Service::ollama_chat(const Call& call) {
  std::optional<ChatRequest> asked = read_ollama_chat(call.fields, prompt_encoder(call).facts());
  if (!asked) return call.exchange->respond({.body = json_text(ollama_loaded_json(call.name(), true, "load"))});
  answer_chat(call, *std::move(asked),
              [&](std::size_t /*prompt_tokens*/) { return std::make_unique<OllamaFormat>(call.name(), true); });
}

void Service::ollama_generate(const Call& call) {
  const PromptEncoder encoder = prompt_encoder(call);
  std::optional<OllamaGenerateRequest> asked = read_ollama_generate(call.fields, encoder.facts());
  if (!asked) return call.exchange->respond({.body = json_text(ollama_loaded_json(call.name(), false, "load"))});
  auto format = std::make_unique<OllamaFormat>(call.name(), false);
  ChatRequest& chat = asked->chat;
  if (!asked->raw) {
    return answer_chat(call, std::move(chat), [&](std::size_t /*prompt_tokens*/) { return std::move(format); });
  }
  chat.generation.options.constraint = chat.answer.constraint;
  encoder.compile(chat.generation.options.constraint, chat.answer.field);
  if (asked->suffix) {
    encoder.set_infill_prompt({.before = *asked->raw, .after = *asked->suffix}, chat.generation);
  } else {
    chat.generation.prompt = encoder.encode(*asked->raw, {}, kNoUsualLimit);
  }
  const AnswerShape shape = shape_of(chat.generation, chat.delivery.stream, chat.answer.field);
  answer_prompt(call, std::move(chat.generation), chat.limit, shape, std::move(format));
}

void Service::infill(const Call& call) {
  const PromptEncoder encoder = prompt_encoder(call);
  GapRequest asked = read_infill(call.fields, encoder.facts());
  encoder.set_infill_prompt({.before = asked.before, .after = asked.after, .files = asked.files, .begun = asked.begun},
                            asked.generation);
  encoder.compile(asked.generation.options.constraint, asked.constraint_field);
  auto format = std::make_unique<InfillFormat>(call.name(), asked.generation.prompt.size());
  const AnswerShape shape = shape_of(asked.generation, asked.stream, asked.constraint_field);
  answer_prompt(call, std::move(asked.generation), asked.limit, shape, std::move(format));
}

/// Answers one prompt that is not a conversation.
void Service::answer_prompt(const Call& call, GenerationRequest generation, const AnswerLimit& limit,
                            const AnswerShape& shape, std::unique_ptr<AnswerFormat> format) {
  const PromptEncoder encoder = prompt_encoder(call);
  set_user(generation, call.exchange->request());
  encoder.check_lengths(generation, limit, kNoUsualLimit, false);
  const std::size_t bytes = generation_bytes(std::span(&generation, 1), shape);
  hold(*call.exchange, body_bytes(call.exchange->request().body, kTextCopies) + bytes);
  const auto answer = std::make_shared<TextAnswer>(call.exchange, call.strand, call.model, std::move(format), shape);
  std::vector<GenerationRequest> requests;
  requests.push_back(std::move(generation));
  submit(call, *answer, std::move(requests), bytes);
}

EmbeddingRequest Service::read_embedding_of(const Call& call) {
  const model::Model& model = call.model->loaded.model;
  return read_embedding(call.fields, model.spec().vocab_size, model.text_dense().output_size(model.spec().hidden_size));
}

void Service::embed(const Call& call) {
  const EmbeddingRequest asked = read_embedding_of(call);
  answer_embedding(call, asked,
                   [model = call.name(), base64 = asked.base64](std::span<const std::vector<float>> vectors,
                                                                const RequestUsage& usage) {
                     return embeddings_json(model, vectors, base64, usage);
                   });
}

void Service::ollama_embed(const Call& call) {
  EmbeddingRequest asked = read_embedding_of(call);
  if (call.fields.flag("truncate", true)) asked.prompt_options.truncate = -1;
  answer_embedding(call, asked,
                   [model = call.name(), begin = std::chrono::steady_clock::now()](
                       std::span<const std::vector<float>> vectors, const RequestUsage& usage) {
                     return ollama_embeddings_json(model, vectors, usage, std::chrono::steady_clock::now() - begin);
                   });
}

/// Answers with the vectors of all inputs, in the form that `make_body` gives them.
void Service::answer_embedding(const Call& call, const EmbeddingRequest& asked, EmbeddingAnswer::MakeBody make_body) {
  const ReadyModel& model = *call.model;
  const PromptEncoder encoder = prompt_encoder(call);
  const ModelSpec& spec = model.loaded.model.spec();
  if (spec.encoder) throw ApiError(400, "the model writes texts and makes no vectors", "model");
  const TextVectorSpec vectors = spec.text_vectors.value_or(TextVectorSpec{});
  std::size_t most_tokens = model.scheduler.context_length();
  if (vectors.most_tokens > 0) most_tokens = std::min(most_tokens, vectors.most_tokens);
  const std::size_t kept = kept_tokens(asked.prompt_options, most_tokens);
  const std::string prompt = named_prompt(spec, asked.prompt_name);
  std::vector<GenerationRequest> requests;
  for (const Prompt& input : asked.inputs) {
    GenerationRequest& request = requests.emplace_back();
    const auto* text = std::get_if<std::string>(&input);
    request.prompt = encoder.encode(text != nullptr ? Prompt(prompt + *text) : input, asked.prompt_options, kept);
    request.normalized = asked.normalized;
    request.dimensions = asked.dimensions;
    request.salt = asked.salt;
    request.embed = asked.pooling.value_or(vectors.pooling);
    set_user(request, call.exchange->request());
    if (request.prompt.empty() || request.prompt.size() > most_tokens) {
      throw ApiError(
          400, files::concat("input: has ", request.prompt.size(), " tokens, 1 to ", most_tokens, " are possible"),
          "input");
    }
  }
  const std::size_t bytes = embedding_bytes(requests, spec.hidden_size, asked.base64);
  hold(*call.exchange, body_bytes(call.exchange->request().body, kTextCopies) + bytes);
  const auto answer = std::make_shared<EmbeddingAnswer>(call.exchange, call.strand, call.model, asked.inputs.size(),
                                                        std::move(make_body));
  submit(call, *answer, std::move(requests), bytes);
}

/// Submits all requests or none. `bytes` is the memory that they hold from then on.
void Service::submit(const Call& call, ModelAnswer& answer, std::vector<GenerationRequest> requests,
                     std::size_t bytes) {
  std::vector<Submission> submissions;
  for (GenerationRequest& request : requests) {
    if (call.adapter != nullptr) {
      request.options.adapter = call.adapter->adapter;
      request.salt += '\0' + std::to_string(call.adapter->adapter->identity);  // its keys and values are its own
    }
    const std::size_t prompt = submissions.size();
    submissions.push_back({.request = std::move(request), .listener = answer.listener(prompt)});
  }
  try {
    auto tickets = call.model->scheduler.submit(submissions);
    if (tickets) {
      call.exchange->hold(bytes);
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
