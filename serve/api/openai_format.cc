#include "serve/api/openai_format.h"

#include <algorithm>

#include "files/utf8.h"
#include "serve/api/json_text.h"

namespace ballast::serve {
namespace {

/// Returns prompt_logprobs in vLLM's form: for each token of the prompt an object with the actual token and the `top`
/// most likely ones, by id. `scores` are those of all tokens of the prompt but the first, which gets null.
nlohmann::ordered_json prompt_logprobs_json(const text::Tokenizer& tokenizer, std::span<const GeneratedToken> scores,
                                            std::size_t top) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::array({nullptr});
  for (const GeneratedToken& token : scores) {
    nlohmann::ordered_json entry = nlohmann::ordered_json::object();
    const auto add = [&](int id, double logprob, std::size_t rank) {
      entry.emplace(
          std::to_string(id),
          nlohmann::ordered_json{{"logprob", logprob}, {"rank", rank}, {"decoded_token", token_text(tokenizer, id)}});
    };
    add(token.id, token.logprob, token.rank);
    const std::size_t count = std::min(top, token.top.size());
    for (std::size_t i = 0; i < count; ++i) add(token.top[i].id, token.top[i].logprob, i + 1);
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace

nlohmann::ordered_json finish_reason(const std::optional<ChoiceEnd>& end) {
  if (!end) return nullptr;
  return end->finish == GenerateResult::Finish::kStop ? "stop" : "length";
}

nlohmann::ordered_json usage_json(const RequestUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.generated_tokens},
          {"total_tokens", usage.prompt_tokens + usage.generated_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.thinking_tokens}}}};
}

nlohmann::ordered_json token_logprobs_json(const text::Tokenizer& tokenizer, std::span<const GeneratedToken> tokens) {
  const auto token_json = [&](int id, double logprob) -> nlohmann::ordered_json {
    nlohmann::ordered_json bytes = nlohmann::ordered_json::array();
    for (const char byte : tokenizer.token_bytes(id)) bytes.push_back(static_cast<unsigned char>(byte));
    return {{"token", token_text(tokenizer, id)}, {"logprob", logprob}, {"bytes", std::move(bytes)}};
  };
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const GeneratedToken& token : tokens) {
    nlohmann::ordered_json entry = token_json(token.id, token.logprob);
    entry["top_logprobs"] = nlohmann::ordered_json::array();
    for (const TokenLogprob& top : token.top) entry["top_logprobs"].push_back(token_json(top.id, top.logprob));
    list.push_back(std::move(entry));
  }
  return list;
}

std::string token_text(const text::Tokenizer& tokenizer, int id) {
  return files::replace_invalid_utf8(tokenizer.token_bytes(id));
}

std::string OpenAiFormat::begin_stream(std::size_t choices) {
  std::string text;
  for (std::size_t i = 0; i < choices; ++i) {
    nlohmann::ordered_json first = first_piece(i);
    if (!first.is_null()) text += event(nlohmann::ordered_json::array({std::move(first)}), nullptr);
  }
  return text;
}

std::string OpenAiFormat::write_piece(const AnswerPiece& piece) {
  return event(nlohmann::ordered_json::array({piece_json(piece)}), nullptr);
}

std::string OpenAiFormat::end_stream(const RequestUsage& usage) {
  std::string text;
  if (head_.include_usage) text += event(nlohmann::ordered_json::array(), &usage);
  return text + event_text({}, "[DONE]");
}

/// Writes choice by choice, so that only one is in memory as JSON.
void OpenAiFormat::add_choice(const AnswerPiece& choice, std::string& body) {
  nlohmann::ordered_json json = choice_json(choice);
  if (head_.prompt_logprobs) {
    if (has_prompts_of_choices()) {
      json["prompt_logprobs"] = prompt_logprobs_json(tokenizer_, choice.prompt_scores, *head_.prompt_logprobs);
    } else if (prompt_logprobs_.is_null()) {
      prompt_logprobs_ = prompt_logprobs_json(tokenizer_, choice.prompt_scores, *head_.prompt_logprobs);
    }
  }
  if (body.empty()) {
    body = json_text(head_json(object()));
    body.pop_back();  // the closing brace
    body += ",\"choices\":[";
  } else {
    body += ',';
  }
  body += json_text(json);
}

void OpenAiFormat::end_body(const RequestUsage& usage, std::string& body) {
  nlohmann::ordered_json rest = {{"usage", usage_json(usage)}};
  if (!prompt_logprobs_.is_null()) rest["prompt_logprobs"] = std::move(prompt_logprobs_);
  body += "]," + json_text(rest).substr(1);
}

/// Usage is null in all events but the last, which has no choices.
std::string OpenAiFormat::event(nlohmann::ordered_json choices, const RequestUsage* usage) const {
  nlohmann::ordered_json json = head_json(event_object());
  json["choices"] = std::move(choices);
  if (head_.include_usage) json["usage"] = usage != nullptr ? usage_json(*usage) : nullptr;
  return event_text({}, json_text(json));
}

nlohmann::ordered_json OpenAiFormat::head_json(std::string_view object) const {
  return {{"id", head_.id}, {"object", object}, {"created", head_.created}, {"model", head_.model}};
}

}  // namespace ballast::serve
