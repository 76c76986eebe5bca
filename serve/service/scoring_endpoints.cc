// The endpoints that score texts, and those of text-embeddings-inference (TEI).
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/text_classifier.h"
#include "engine/text_prompts.h"
#include "files/text.h"
#include "serve/api/json_text.h"
#include "serve/api/openai_format.h"
#include "serve/api/scoring_format.h"
#include "serve/service/embedding_answer.h"
#include "serve/service/request_memory.h"
#include "serve/service/service.h"

namespace ballast::serve {
namespace {

using Json = nlohmann::ordered_json;

const ClassifierSpec& require_classifier(const ReadyModel& model) {
  const std::optional<ClassifierSpec>& classifier = model.loaded.model.spec().classifier;
  if (!classifier) throw ApiError(400, files::concat("the model ", model.name, " has no classifier"), "model");
  return *classifier;
}

const ClassifierSpec& require_text_classifier(const ReadyModel& model) {
  const ClassifierSpec& classifier = require_classifier(model);
  if (!classifier.of_tokens) return classifier;
  throw ApiError(
      400, files::concat("the model ", model.name, " labels tokens, not texts: /classify gives their labels"), "model");
}

/// Refuses models whose classifier has no single score.
void check_ranks(const ReadyModel& model) {
  const ModelSpec& spec = model.loaded.model.spec();
  if (!spec.classifier && !spec.makes_vectors()) {
    throw ApiError(
        400, files::concat("the model ", model.name, " is a decoder, trained neither for scores nor vectors"), "model");
  }
  if (!spec.classifier) return;  // vectors are compared
  if (require_text_classifier(model).labels.size() == 1) return;
  throw ApiError(400, files::concat("the classifier of ", model.name, " has several labels, so that it cannot rank"),
                 "model");
}

float cosine(std::span<const float> a, std::span<const float> b) {
  const auto product = [](std::span<const float> x, std::span<const float> y) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += double{x[i]} * double{y[i]};
    return sum;
  };
  return static_cast<float>(product(a, b) / std::sqrt(product(a, a) * product(b, b)));
}

/// Different texts with the prompts before queries and documents, and the indices of the two texts of each pair.
struct ComparedTexts {
  std::vector<Prompt> texts;
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
};

ComparedTexts compared_texts(const ModelSpec& spec, const ScoringRequest& asked) {
  const std::string before_query = engine::prompt_named(spec, engine::query_prompt(spec));
  const std::string before_document = engine::prompt_named(spec, engine::document_prompt(spec));
  ComparedTexts compared;
  std::map<std::string, std::size_t> indices;
  const auto index_of = [&](const std::string& text) {
    const auto [place, is_new] = indices.try_emplace(text, compared.texts.size());
    if (is_new) compared.texts.emplace_back(text);
    return place->second;
  };
  for (const ScoredInput& input : asked.inputs) {
    const std::size_t first = index_of(before_query + input.first);
    compared.pairs.emplace_back(first, index_of(before_document + *input.second));
  }
  return compared;
}

}  // namespace

/// Answers with a score of each pair of texts: the classifier's, or the cosine of their vectors.
void Service::answer_scores(const Call& call, const ScoringRequest& asked, EmbeddingAnswer::MakeBody make_body) {
  check_ranks(*call.model);
  if (call.model->loaded.model.spec().classifier) return submit_scored(call, asked, std::move(make_body));
  ComparedTexts compared = compared_texts(call.model->loaded.model.spec(), asked);
  const EmbeddingRequest vectors{.inputs = std::move(compared.texts),
                                 .prompt_name = "",
                                 .prompt_options = asked.prompt_options,
                                 .salt = asked.salt};
  answer_embedding(call, vectors,
                   [pairs = std::move(compared.pairs), make_body = std::move(make_body)](
                       std::span<const std::vector<float>> embeddings, const RequestUsage& usage) {
                     std::vector<std::vector<float>> scores;
                     scores.reserve(pairs.size());
                     for (const auto& [first, second] : pairs) {
                       scores.push_back({cosine(embeddings[first], embeddings[second])});
                     }
                     return make_body(scores, usage);
                   });
}

/// Answers with the classifier's scores of all inputs, or of their tokens. Precondition: the model has a classifier.
void Service::submit_scored(const Call& call, const ScoringRequest& asked, EmbeddingAnswer::MakeBody make_body) {
  std::vector<GenerationRequest> requests = scoring_requests(call, asked);
  submit_scored(call, asked, std::move(requests), std::move(make_body));
}

/// Returns the requests of all inputs.
std::vector<GenerationRequest> Service::scoring_requests(const Call& call, const ScoringRequest& asked) const {
  const ReadyModel& model = *call.model;
  const ClassifierSpec& classifier = *model.loaded.model.spec().classifier;
  const PromptEncoder encoder = prompt_encoder(call);
  const std::size_t most = model.scheduler.context_length();
  const std::size_t kept = kept_tokens(asked.prompt_options, most);
  std::vector<GenerationRequest> requests;
  for (const ScoredInput& input : asked.inputs) {
    GenerationRequest& request = requests.emplace_back();
    if (!input.second && classifier.token_score) {
      throw ApiError(400, files::concat("the model ", model.name, " scores pairs of texts only"));
    }
    if (input.second) {
      engine::EncodedText encoded = encoder.encode_pair({.first = input.first, .second = *input.second}, kept);
      request.prompt = std::move(encoded.ids);
      request.token_types = std::move(encoded.types);
    } else {
      request.prompt = encoder.encode(input.first, asked.prompt_options, kept);
    }
    request.salt = asked.salt;
    request.classify = true;
    set_user(request, call.exchange->request());
    if (request.prompt.empty() || request.prompt.size() > most) {
      throw ApiError(400, files::concat("a text has ", request.prompt.size(), " tokens, 1 to ", most, " are possible"));
    }
  }
  return requests;
}

void Service::submit_scored(const Call& call, const ScoringRequest& asked, std::vector<GenerationRequest> requests,
                            EmbeddingAnswer::MakeBody make_body) {
  const ClassifierSpec& classifier = *call.model->loaded.model.spec().classifier;
  const std::size_t labels = classifier.labels.size();
  const std::size_t rows =
      classifier.of_tokens
          ? std::ranges::max(requests, {}, [](const GenerationRequest& request) { return request.prompt.size(); })
                .prompt.size()
          : 1;
  const std::size_t bytes = embedding_bytes(requests, rows * labels, false);
  hold(*call.exchange, body_bytes(call.exchange->request().body, kTextCopies) + bytes);
  const auto apply = [labels, function = asked.raw_scores ? ClassifierSpec::Function::kNone : classifier.function,
                      make_body = std::move(make_body)](std::span<const std::vector<float>> raw,
                                                        const RequestUsage& usage) {
    std::vector<std::vector<float>> scores(raw.begin(), raw.end());
    for (std::vector<float>& of_input : scores) {
      for (std::size_t row = 0; row < of_input.size(); row += labels) {
        engine::apply_function(function, std::span(of_input).subspan(row, labels));
      }
    }
    return make_body(scores, usage);
  };
  const auto answer =
      std::make_shared<EmbeddingAnswer>(call.exchange, call.strand, call.model, asked.inputs.size(), apply);
  submit(call, *answer, std::move(requests), bytes);
}

void Service::rerank(const Call& call) {
  if (is_tei_rerank(call.fields)) return answer_tei_rerank(call);
  const RerankRequest asked = read_rerank(call.fields);
  answer_scores(call, asked.scoring,
                [asked, id = random_id("rerank-"), model = call.name()](InputScores scores, const RequestUsage& usage) {
                  return rerank_json(id, model, asked, scores, usage);
                });
}

void Service::answer_tei_rerank(const Call& call) {
  const RerankRequest asked = read_tei_rerank(call.fields);
  answer_scores(call, asked.scoring,
                [asked](InputScores scores, const RequestUsage& /*usage*/) { return tei_rerank_json(asked, scores); });
}

void Service::score(const Call& call) {
  answer_scores(call, read_score(call.fields),
                [id = random_id("score-"), model = call.name()](InputScores scores, const RequestUsage& usage) {
                  return score_json(id, model, scores, usage);
                });
}

void Service::classify(const Call& call) {
  const ClassifierSpec& classifier = require_classifier(*call.model);
  if (classifier.of_tokens) return classify_tokens(call);
  submit_scored(
      call, read_classify(call.fields),
      [classifier, id = random_id("classify-"), model = call.name()](InputScores scores, const RequestUsage& usage) {
        return classify_json(id, model, classifier, scores, usage);
      });
}

void Service::classify_tokens(const Call& call) {
  const ScoringRequest asked = read_classify(call.fields);
  std::vector<GenerationRequest> requests = scoring_requests(call, asked);
  std::vector<InputTokens> tokens;
  for (const GenerationRequest& request : requests) {
    InputTokens& of_input = tokens.emplace_back();
    const text::Tokenizer& tokenizer = call.model->loaded.tokenizer();
    for (const int id : request.prompt) {
      of_input.push_back(tokenizer.is_special(id) ? std::nullopt : std::optional(tokenizer.token_bytes(id)));
    }
  }
  const ClassifierSpec& classifier = *call.model->loaded.model.spec().classifier;
  submit_scored(call, asked, std::move(requests),
                [classifier, tokens = std::move(tokens), id = random_id("classify-"), model = call.name()](
                    InputScores scores, const RequestUsage& usage) {
                  return classify_tokens_json(id, model, classifier, tokens, scores, usage);
                });
}

void Service::tei_similarity(const Call& call) {
  answer_scores(call, read_tei_similarity(call.fields), [](InputScores scores, const RequestUsage& /*usage*/) {
    Json list = Json::array();
    for (const std::vector<float>& score : scores) list.push_back(score.front());
    return list;
  });
}

/// Answers at TEI's root, where it has the one endpoint that fits its model.
void Service::tei_answer(const Call& call) {
  if (is_tei_rerank(call.fields)) return answer_tei_rerank(call);
  if (is_tei_similarity(call.fields)) return tei_similarity(call);
  if (call.model->loaded.model.spec().classifier) return tei_predict(call);
  tei_embed(call);
}

void Service::tei_embed(const Call& call) {
  const model::Model& model = call.model->loaded.model;
  const EmbeddingRequest asked = read_tei_embedding(call.fields, model.spec().vocab_size,
                                                    model.text_dense().output_size(model.spec().hidden_size));
  answer_embedding(call, asked, [](std::span<const std::vector<float>> vectors, const RequestUsage& /*usage*/) {
    return Json(std::vector<std::vector<float>>(vectors.begin(), vectors.end()));
  });
}

void Service::tei_predict(const Call& call) {
  const ClassifierSpec& classifier = require_text_classifier(*call.model);
  submit_scored(call, read_tei_predict(call.fields),
                [classifier, is_batch = is_tei_batch(call.fields)](InputScores scores, const RequestUsage& /*usage*/) {
                  return tei_predict_json(classifier, scores, is_batch);
                });
}

void Service::tei_info(const Call& call) {
  call.exchange->respond({.body = json_text(tei_info_json(call.name(), call.model->loaded.model.spec(),
                                                          call.model->scheduler.context_length()))});
}

}  // namespace ballast::serve
