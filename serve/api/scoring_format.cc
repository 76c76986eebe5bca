#include "serve/api/scoring_format.h"

#include <algorithm>
#include <ctime>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include "ballast/version.h"
#include "files/text.h"
#include "serve/api/field_table.h"
#include "serve/api/openai_format.h"

namespace ballast::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostInputs = 4096;

ApiError missing(std::string_view field) {
  return {400, files::concat(field, ": is missing"), std::string(field)};
}

/// Reads a text, or an object that has it as `text`.
std::string read_document(const files::JsonReader& value) {
  return value.json().is_object() ? value.text("text") : value.string();
}

std::vector<std::string> read_list(const files::JsonReader& value) {
  if (!value.json().is_array()) return {read_document(value)};
  if (value.json().empty()) value.fail("must not be empty");
  if (value.json().size() > kMostInputs) value.fail(files::concat("at most ", kMostInputs, " are possible at once"));
  std::vector<std::string> texts;
  for (const files::JsonReader& element : value.elements()) texts.push_back(read_document(element));
  return texts;
}

/// Reads a text or a list of them from the first of the fields that is there.
std::vector<std::string> read_texts(const RequestFields& fields, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (std::optional<std::vector<std::string>> texts = fields.read(name, read_list)) return *std::move(texts);
  }
  throw missing(*names.begin());
}

/// Rerankers cut what is too long at its end: so do their authors' programs, and Cohere's and Jina's services.
constexpr PromptOptions kCut = {.truncate = -1, .keep_end = false, .makes_vector = true};

/// Reads the options that all of these requests of vLLM have.
ScoringRequest read_options(const RequestFields& fields) {
  return {.inputs = {},
          .raw_scores = !fields.flag("use_activation", true),
          .prompt_options = read_prompt_options(fields, kCut),
          .salt = fields.text("cache_salt").value_or("")};
}

PromptOptions read_tei_truncation(const RequestFields& fields) {
  PromptOptions options = kCut;
  if (!fields.flag("truncate", true)) options.truncate.reset();
  return options;
}

RerankRequest rerank_of(const RequestFields& fields, ScoringRequest scoring, std::string_view documents) {
  const std::optional<std::string> query = fields.text("query");
  if (!query) throw missing("query");
  RerankRequest request{.scoring = std::move(scoring)};
  for (std::string& document : read_texts(fields, {documents})) {
    request.scoring.inputs.push_back({.first = *query, .second = std::move(document)});
  }
  request.top = request.scoring.inputs.size();
  return request;
}

/// Returns a list in vLLM's form.
Json list_json(const std::string& id, const std::string& model, Json data, const RequestUsage& usage) {
  return {{"id", id},       {"object", "list"},        {"created", std::time(nullptr)},
          {"model", model}, {"data", std::move(data)}, {"usage", usage_json(usage)}};
}

/// Returns the indices of the best inputs, the best first.
std::vector<std::size_t> best_inputs(InputScores scores, std::size_t top) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return scores[a].front() > scores[b].front(); });
  order.resize(std::min(top, order.size()));
  return order;
}

/// Reads one of TEI's inputs: a text, or a list of one or two.
ScoredInput read_tei_input(const files::JsonReader& value) {
  if (!value.json().is_array()) return {.first = value.string()};
  const std::vector<files::JsonReader> texts = value.elements();
  if (texts.empty() || texts.size() > 2) value.fail("must be a text, or a list of one or two");
  ScoredInput input{.first = texts.front().string()};
  if (texts.size() == 2) input.second = texts.back().string();
  return input;
}

std::vector<ScoredInput> read_tei_inputs(const files::JsonReader& value) {
  const bool is_batch = value.json().is_array() && !value.json().empty() && value.json().front().is_array();
  if (!is_batch) return {read_tei_input(value)};
  if (value.json().size() > kMostInputs) value.fail(files::concat("at most ", kMostInputs, " are possible at once"));
  std::vector<ScoredInput> inputs;
  for (const files::JsonReader& element : value.elements()) inputs.push_back(read_tei_input(element));
  return inputs;
}

Json predictions(const ClassifierSpec& classifier, const std::vector<float>& scores) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  Json list = Json::array();
  for (const std::size_t i : order) list.push_back({{"score", scores[i]}, {"label", classifier.labels[i]}});
  return list;
}

/// Returns the label with the highest of its scores.
const std::string& best_label(const ClassifierSpec& classifier, std::span<const float> scores) {
  return classifier.labels[static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin())];
}

}  // namespace

RerankRequest read_rerank(const RequestFields& fields) {
  check_fields(fields, kReranks);
  RerankRequest request = rerank_of(fields, read_options(fields), "documents");
  const auto count = static_cast<std::int64_t>(request.top);
  if (const auto top = fields.integer("top_n", 0, std::numeric_limits<std::int64_t>::max())) {
    request.top = static_cast<std::size_t>(*top == 0 ? count : std::min(*top, count));
  }
  request.returns_documents = fields.flag("return_documents", false);
  return request;
}

ScoringRequest read_score(const RequestFields& fields) {
  check_fields(fields, kScores);
  ScoringRequest request = read_options(fields);
  const std::vector<std::string> first = read_texts(fields, {"text_1", "queries"});
  std::vector<std::string> second = read_texts(fields, {"text_2", "documents"});
  if (first.size() != 1 && first.size() != second.size()) {
    throw ApiError(400,
                   files::concat("text_1: has ", first.size(), " texts, text_2 ", second.size(),
                                 ": one, or as many, are possible"),
                   "text_1");
  }
  for (std::size_t i = 0; i < second.size(); ++i) {
    request.inputs.push_back({.first = first.size() == 1 ? first.front() : first[i], .second = std::move(second[i])});
  }
  return request;
}

ScoringRequest read_classify(const RequestFields& fields) {
  check_fields(fields, kClassifications);
  ScoringRequest request = read_options(fields);
  for (std::string& text : read_texts(fields, {"input"})) request.inputs.push_back({.first = std::move(text)});
  return request;
}

bool is_tei_rerank(const RequestFields& fields) {
  return fields.has("texts");
}

RerankRequest read_tei_rerank(const RequestFields& fields) {
  ScoringRequest scoring{
      .inputs = {}, .raw_scores = fields.flag("raw_scores", false), .prompt_options = read_tei_truncation(fields)};
  RerankRequest request = rerank_of(fields, std::move(scoring), "texts");
  request.returns_documents = fields.flag("return_text", false);
  return request;
}

ScoringRequest read_tei_predict(const RequestFields& fields) {
  ScoringRequest request{
      .inputs = {}, .raw_scores = fields.flag("raw_scores", false), .prompt_options = read_tei_truncation(fields)};
  std::optional<std::vector<ScoredInput>> inputs = fields.read("inputs", read_tei_inputs);
  if (!inputs) throw missing("inputs");
  request.inputs = *std::move(inputs);
  return request;
}

bool is_tei_similarity(const RequestFields& fields) {
  return fields.has("inputs") && fields.reader().at("inputs").json().is_object();
}

ScoringRequest read_tei_similarity(const RequestFields& fields) {
  ScoringRequest request{.inputs = {}, .prompt_options = kCut};
  const bool found = fields
                         .read("inputs",
                               [&](const files::JsonReader& inputs) {
                                 const std::string source = inputs.text("source_sentence");
                                 for (std::string& sentence : read_list(inputs.at("sentences"))) {
                                   request.inputs.push_back({.first = source, .second = std::move(sentence)});
                                 }
                                 return true;
                               })
                         .has_value();
  if (!found) throw missing("inputs");
  return request;
}

bool is_tei_batch(const RequestFields& fields) {
  const nlohmann::json& inputs = fields.reader().at("inputs").json();
  return inputs.is_array() && !inputs.empty() && inputs.front().is_array();
}

Json rerank_json(const std::string& id, const std::string& model, const RerankRequest& request, InputScores scores,
                 const RequestUsage& usage) {
  Json results = Json::array();
  for (const std::size_t i : best_inputs(scores, request.top)) {
    Json result = {{"index", i}, {"relevance_score", scores[i].front()}};
    if (request.returns_documents) result["document"] = {{"text", *request.scoring.inputs[i].second}};
    results.push_back(std::move(result));
  }
  return {{"id", id}, {"model", model}, {"results", std::move(results)}, {"usage", usage_json(usage)}};
}

Json score_json(const std::string& id, const std::string& model, InputScores scores, const RequestUsage& usage) {
  Json data = Json::array();
  for (const std::vector<float>& score : scores) {
    data.push_back({{"index", data.size()}, {"object", "score"}, {"score", score.front()}});
  }
  return list_json(id, model, std::move(data), usage);
}

Json classify_json(const std::string& id, const std::string& model, const ClassifierSpec& classifier,
                   InputScores scores, const RequestUsage& usage) {
  Json data = Json::array();
  for (const std::vector<float>& probabilities : scores) {
    data.push_back({{"index", data.size()},
                    {"label", best_label(classifier, probabilities)},
                    {"probs", probabilities},
                    {"num_classes", probabilities.size()}});
  }
  return list_json(id, model, std::move(data), usage);
}

Json classify_tokens_json(const std::string& id, const std::string& model, const ClassifierSpec& classifier,
                          std::span<const InputTokens> tokens, InputScores scores, const RequestUsage& usage) {
  const std::size_t labels = classifier.labels.size();
  Json data = Json::array();
  for (std::size_t input = 0; input < scores.size(); ++input) {
    Json labelled = Json::array();
    for (std::size_t i = 0; i < tokens[input].size(); ++i) {
      if (!tokens[input][i]) continue;
      const std::span<const float> probabilities = std::span(scores[input]).subspan(i * labels, labels);
      labelled.push_back(
          {{"token", *tokens[input][i]}, {"label", best_label(classifier, probabilities)}, {"probs", probabilities}});
    }
    data.push_back({{"index", input}, {"tokens", std::move(labelled)}, {"num_classes", labels}});
  }
  return list_json(id, model, std::move(data), usage);
}

Json tei_rerank_json(const RerankRequest& request, InputScores scores) {
  Json results = Json::array();
  for (const std::size_t i : best_inputs(scores, request.top)) {
    Json result = {{"index", i}, {"score", scores[i].front()}};
    if (request.returns_documents) result["text"] = *request.scoring.inputs[i].second;
    results.push_back(std::move(result));
  }
  return results;
}

Json tei_predict_json(const ClassifierSpec& classifier, InputScores scores, bool is_batch) {
  if (!is_batch) return predictions(classifier, scores.front());
  Json list = Json::array();
  for (const std::vector<float>& of_input : scores) list.push_back(predictions(classifier, of_input));
  return list;
}

Json tei_info_json(const std::string& model, const ModelSpec& spec, std::size_t context_length) {
  Json kind;
  if (spec.classifier) {
    Json by_id = Json::object();
    Json by_label = Json::object();
    for (std::size_t i = 0; i < spec.classifier->labels.size(); ++i) {
      by_id[std::to_string(i)] = spec.classifier->labels[i];
      by_label[spec.classifier->labels[i]] = i;
    }
    const char* name = spec.classifier->labels.size() == 1 ? "reranker" : "classifier";
    kind[name] = {{"id2label", std::move(by_id)}, {"label2id", std::move(by_label)}};
  } else {
    const Pooling pooling = spec.text_vectors.value_or(TextVectorSpec{}).pooling;
    const char* name = pooling == Pooling::kMean ? "mean" : pooling == Pooling::kFirst ? "cls" : "last_token";
    kind["embedding"] = {{"pooling", name}};
  }
  return {{"model_id", model},
          {"model_type", std::move(kind)},
          {"max_input_length", context_length},
          {"max_client_batch_size", kMostInputs},
          {"auto_truncate", true},
          {"version", version()}};
}

}  // namespace ballast::serve
