#include "serve/api/completion_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "files/text.h"
#include "serve/api/constraint_fields.h"
#include "serve/api/field_table.h"

namespace ballast::serve {
namespace {

constexpr std::size_t kMostPrompts = 2048;

Prompt read_prompt(const files::JsonReader& value, std::size_t vocab_size) {
  if (value.json().is_string()) return value.string();
  return token_ids(value, vocab_size);
}

/// Reads `logprobs`; false means none, as in vLLM and llama-server.
std::optional<std::size_t> read_logprobs(const RequestFields& fields) {
  return fields
      .read("logprobs",
            [](const files::JsonReader& value) -> std::optional<std::size_t> {
              if (value.json() == false) return std::nullopt;
              return static_cast<std::size_t>(whole_number(value, 0, kMostTopLogprobs));
            })
      .value_or(std::nullopt);
}

}  // namespace

std::vector<Prompt> read_prompts(const RequestFields& fields, std::string_view field, std::size_t vocab_size) {
  const auto read = [&](const files::JsonReader& value) {
    std::vector<Prompt> prompts;
    const nlohmann::json& json = value.json();
    if (json.is_array() && json.empty()) value.fail("must not be empty");
    if (!json.is_array() || json.front().is_number()) {
      prompts.push_back(read_prompt(value, vocab_size));
      return prompts;
    }
    if (json.size() > kMostPrompts) value.fail(files::concat("at most ", kMostPrompts, " are possible at once"));
    for (const files::JsonReader& element : value.elements()) {
      prompts.push_back(read_prompt(element, vocab_size));
      if (prompts.back().index() != prompts.front().index()) element.fail("must be of the kind of those before it");
    }
    return prompts;
  };
  std::optional<std::vector<Prompt>> prompts = fields.read(field, read);
  if (!prompts) throw ApiError(400, files::concat(field, ": is missing"), std::string(field));
  return *std::move(prompts);
}

CompletionRequest read_completion(const RequestFields& fields, const ModelFacts& model) {
  constexpr std::array<std::string_view, 3> kLimits = {"max_tokens", "max_completion_tokens", "n_predict"};
  check_fields(fields, kCompletions);
  CompletionRequest request = {.prompts = read_prompts(fields, "prompt", model.vocab_size),
                               .generation = read_generation(fields, model),
                               .prompt_options = read_prompt_options(fields, {}),
                               .limit = read_answer_limit(fields, kLimits),
                               .echo = fields.flag("echo", false),
                               .delivery = read_delivery(fields)};
  GenerationRequest& generation = request.generation;
  generation.options.source_language = fields.text("source_language").value_or("");
  generation.options.target_language = fields.text("target_language").value_or("");
  FieldConstraint constraint = read_constraint(fields);
  generation.options.constraint = std::move(constraint.constraint);
  request.constraint_field = std::move(constraint.field);
  if (std::string suffix = fields.text("suffix").value_or(""); !suffix.empty()) {
    if (request.echo) throw ApiError(400, "echo: is not possible with suffix", "echo");
    if (!std::holds_alternative<std::string>(request.prompts.front())) {
      throw ApiError(400, "suffix: needs a prompt that is text", "suffix");
    }
    request.suffix = std::move(suffix);
  }
  if (request.prompts.size() * generation.choices > kMostPrompts) {
    throw ApiError(400, files::concat("n: at most ", kMostPrompts, " texts are possible, of all prompts together"),
                   "n");
  }
  const std::optional<std::size_t> logprobs = read_logprobs(fields);
  generation.options.logprobs = logprobs;
  request.prompt_logprobs = read_prompt_logprobs(fields, request.delivery);
  if ((request.echo && logprobs) || request.prompt_logprobs) {
    const std::size_t of_echo = request.echo ? logprobs.value_or(0) : 0;
    generation.score_prompt = PromptScores{.top = std::max(of_echo, request.prompt_logprobs.value_or(0)),
                                           .ranks = request.prompt_logprobs.has_value()};
  }
  return request;
}

nlohmann::ordered_json CompletionFormat::choice_json(const AnswerPiece& choice) {
  nlohmann::ordered_json json = {{"index", choice.choice}, {"text", joined_text(choice.parts, ReplyKind::kAnswer)}};
  json["logprobs"] = logprobs() ? logprobs_json(choice) : nullptr;
  json["finish_reason"] = finish_reason(choice.end);
  return json;
}

/// Returns lists with one entry per token. A prompt's first token has no probability: NaN here, null in the JSON.
nlohmann::ordered_json CompletionFormat::logprobs_json(const AnswerPiece& piece) const {
  using Json = nlohmann::ordered_json;
  Json tokens = Json::array(), logprobs = Json::array(), tops = Json::array();
  for (const GeneratedToken& token : piece.tokens) {
    const std::string text = token_text(tokenizer(), token.id);
    tokens.push_back(text);
    if (std::isnan(token.logprob)) {
      logprobs.push_back(nullptr);
      tops.push_back(nullptr);
      continue;
    }
    logprobs.push_back(token.logprob);
    // Several tokens may have the same text: the most likely one is kept.
    Json top = Json::object();
    for (const TokenLogprob& other : token.top) top.emplace(token_text(tokenizer(), other.id), other.logprob);
    const auto own = top.emplace(text, token.logprob).first;
    if (own->get<double>() < token.logprob) *own = token.logprob;
    tops.push_back(std::move(top));
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", piece.text_offsets}};
}

}  // namespace ballast::serve
