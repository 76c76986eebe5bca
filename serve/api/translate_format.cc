#include "serve/api/translate_format.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "files/text.h"
#include "serve/api/field_table.h"
#include "serve/api/openai_format.h"

namespace ballast::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostCount = 1 << 20;
constexpr std::int64_t kMostBeams = 32;

std::vector<std::string> read_source_texts(const files::JsonReader& value) {
  constexpr std::size_t kMostTexts = 4096;
  if (value.json().is_string()) return {value.string()};
  std::vector<std::string> texts = value.strings();
  if (texts.empty()) value.fail("must not be empty");
  if (texts.size() > kMostTexts) value.fail(files::concat("at most ", kMostTexts, " are possible at once"));
  return texts;
}

TranslateOptions::EarlyStop read_early_stop(const files::JsonReader& value) {
  using EarlyStop = TranslateOptions::EarlyStop;
  if (value.json().is_boolean()) return value.boolean() ? EarlyStop::kYes : EarlyStop::kNo;
  if (value.string() != "never") value.fail("must be true, false or \"never\"");
  return EarlyStop::kNever;
}

/// Sets an option to the value of a field, if it is there.
void read_count(const RequestFields& fields, std::string_view field, std::int64_t least, std::int64_t most,
                std::size_t& option) {
  if (const auto value = fields.integer(field, least, most)) option = static_cast<std::size_t>(*value);
}

Json text_json(const WrittenText& text) {
  return {{"text", text.text}, {"score", text.score}, {"tokens", text.tokens.size()}};
}

}  // namespace

TranslateRequest read_translate(const RequestFields& fields, const TranslateOptions& defaults) {
  check_fields(fields, kTranslations);
  TranslateRequest request{.texts = {}, .options = defaults};
  std::optional<std::vector<std::string>> texts = fields.read("text", read_source_texts);
  if (!texts) throw ApiError(400, "text: is missing", "text");
  request.texts = *std::move(texts);
  TranslateOptions& options = request.options;
  options.source_language = fields.text("source").value_or("");
  options.target_language = fields.text("target").value_or("");
  read_count(fields, "beam", 1, kMostBeams, options.beams);
  read_count(fields, "hypotheses", 1, kMostBeams, options.hypotheses);
  if (!fields.has("beam")) options.beams = std::max(options.beams, options.hypotheses);
  if (options.hypotheses > options.beams) {
    throw ApiError(400, files::concat("hypotheses: at most as many as beams, ", options.beams), "hypotheses");
  }
  read_count(fields, "no_repeat_ngram_size", 0, kMostCount, options.no_repeat_ngram);
  read_count(fields, "min_tokens", 0, kMostCount, options.min_tokens);
  read_count(fields, "max_tokens", 1, kMostCount, options.max_tokens);
  constexpr double kMostPower = 100;
  options.length_penalty = fields.number("length_penalty", -kMostPower, kMostPower).value_or(options.length_penalty);
  options.repetition_penalty = fields.number("repetition_penalty", 0.01, 100).value_or(options.repetition_penalty);
  options.early_stop = fields.read("early_stopping", read_early_stop).value_or(options.early_stop);
  return request;
}

Json translations_json(const std::string& model, std::span<const Translation> translations) {
  Json list = Json::array();
  RequestUsage usage;
  for (const Translation& translation : translations) {
    Json json = text_json(translation.texts.front());
    if (translation.texts.size() > 1) {
      json["others"] = Json::array();
      for (const WrittenText& other : std::span(translation.texts).subspan(1)) {
        json["others"].push_back(text_json(other));
      }
    }
    list.push_back(std::move(json));
    usage.prompt_tokens += translation.source_tokens;
    for (const WrittenText& text : translation.texts) usage.generated_tokens += text.tokens.size();
  }
  return {{"model", model}, {"translations", std::move(list)}, {"usage", usage_json(usage)}};
}

}  // namespace ballast::serve
