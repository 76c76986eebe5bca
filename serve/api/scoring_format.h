// Requests that score texts by a classifier: /v1/rerank, /v1/score and /classify with the fields of Jina, Cohere and
// vLLM, and /rerank, /predict and /info with those of text-embeddings-inference (TEI).
#ifndef BALLAST_SERVE_API_SCORING_FORMAT_H_
#define BALLAST_SERVE_API_SCORING_FORMAT_H_

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ballast/spec.h"
#include "serve/api/generation_fields.h"
#include "serve/api/request_fields.h"
#include "serve/scheduler/request.h"

namespace ballast::serve {

/// A text, or two that the model reads together.
struct ScoredInput {
  std::string first;
  std::optional<std::string> second{};
};

struct ScoringRequest {
  std::vector<ScoredInput> inputs;
  bool raw_scores = false;  ///< before ClassifierSpec::function
  PromptOptions prompt_options{};
  std::string salt{};
};

struct RerankRequest {
  ScoringRequest scoring;
  std::size_t top = 0;             ///< number of results
  bool returns_documents = false;  ///< with their texts
};

/// All of these throw ApiError.
RerankRequest read_rerank(const RequestFields& fields);
ScoringRequest read_score(const RequestFields& fields);
ScoringRequest read_classify(const RequestFields& fields);

/// Returns whether a body of /rerank has TEI's fields.
bool is_tei_rerank(const RequestFields& fields);

RerankRequest read_tei_rerank(const RequestFields& fields);
ScoringRequest read_tei_predict(const RequestFields& fields);

/// Returns whether `inputs` are sentences that are compared with another one.
bool is_tei_similarity(const RequestFields& fields);

ScoringRequest read_tei_similarity(const RequestFields& fields);

/// Returns whether TEI answers `inputs` with a list for each, not with the result of the only one.
bool is_tei_batch(const RequestFields& fields);

/// The scores of all inputs, [labels] each or one number, or [tokens][labels].
using InputScores = std::span<const std::vector<float>>;

/// The texts of an input's tokens; nullopt for special ones.
using InputTokens = std::vector<std::optional<std::string>>;

nlohmann::ordered_json rerank_json(const std::string& id, const std::string& model, const RerankRequest& request,
                                   InputScores scores, const RequestUsage& usage);
nlohmann::ordered_json score_json(const std::string& id, const std::string& model, InputScores scores,
                                  const RequestUsage& usage);
nlohmann::ordered_json classify_json(const std::string& id, const std::string& model, const ClassifierSpec& classifier,
                                     InputScores scores, const RequestUsage& usage);
nlohmann::ordered_json classify_tokens_json(const std::string& id, const std::string& model,
                                            const ClassifierSpec& classifier, std::span<const InputTokens> tokens,
                                            InputScores scores, const RequestUsage& usage);
nlohmann::ordered_json tei_rerank_json(const RerankRequest& request, InputScores scores);
nlohmann::ordered_json tei_predict_json(const ClassifierSpec& classifier, InputScores scores, bool is_batch);

/// Returns TEI's description of a model.
nlohmann::ordered_json tei_info_json(const std::string& model, const ModelSpec& spec, std::size_t context_length);

}  // namespace ballast::serve

#endif  // BALLAST_SERVE_API_SCORING_FORMAT_H_
