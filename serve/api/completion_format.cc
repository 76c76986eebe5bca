#include "serve/api/completion_format.h"

#include <algorithm>
#include <cmath>

#include "files/text.h"

namespace ballast::serve {
namespace {

constexpr std::size_t kMostPrompts = 2048;

std::vector<int> read_token_ids(const files::JsonReader& value, std::size_t vocab_size) {
  return value.integers<int>(0, static_cast<int>(vocab_size) - 1);
}

Prompt read_prompt(const files::JsonReader& value, std::size_t vocab_size) {
  if (value.json().is_string()) return value.string();
  return read_token_ids(value, vocab_size);
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

CompletionRequest read_completion(const RequestFields& fields, std::size_t vocab_size) {
  CompletionRequest request = {.prompts = read_prompts(fields, "prompt", vocab_size),
                               .generation = read_generation(fields, vocab_size),
                               .echo = fields.flag("echo", false),
                               .delivery = read_delivery(fields)};
  if (request.prompts.size() * request.generation.choices > kMostPrompts) {
    throw ApiError(400, files::concat("n: at most ", kMostPrompts, " texts are possible, of all prompts together"),
                   "n");
  }
  fields.refuse("suffix", "is not supported");
  const std::optional<std::int64_t> best_of = fields.integer("best_of", 1, kMostChoices);
  if (best_of && static_cast<std::size_t>(*best_of) != request.generation.choices) {
    throw ApiError(400, "best_of: other than n is not supported", "best_of");
  }
  if (const auto logprobs = fields.integer("logprobs", 0, kMostTopLogprobs)) {
    request.generation.options.logprobs = static_cast<std::size_t>(*logprobs);
  }
  request.generation.score_prompt = request.echo && request.generation.options.logprobs.has_value();
  return request;
}

nlohmann::ordered_json CompletionFormat::choice(const TextPart& part) const {
  nlohmann::ordered_json choice = {{"index", part.choice}, {"text", part.text}};
  choice["logprobs"] = logprobs_ ? logprobs_json(part) : nullptr;
  choice["finish_reason"] = finish_reason(part.finish);
  return choice;
}

/// Lists with an entry for each token. A prompt's first token has no probability: NaN here, null there.
nlohmann::ordered_json CompletionFormat::logprobs_json(const TextPart& part) const {
  using Json = nlohmann::ordered_json;
  Json tokens = Json::array(), logprobs = Json::array(), tops = Json::array();
  for (const GeneratedToken& token : part.tokens) {
    const std::string text = token_text(tokenizer_, token.id);
    tokens.push_back(text);
    if (std::isnan(token.logprob)) {
      logprobs.push_back(nullptr);
      tops.push_back(nullptr);
      continue;
    }
    logprobs.push_back(token.logprob);
    // Tokens may have the same text: the likelier one counts.
    Json top = Json::object();
    for (const TokenLogprob& other : token.top) top.emplace(token_text(tokenizer_, other.id), other.logprob);
    const auto own = top.emplace(text, token.logprob).first;
    if (own->get<double>() < token.logprob) *own = token.logprob;
    tops.push_back(std::move(top));
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", part.text_offsets}};
}

}  // namespace ballast::serve
