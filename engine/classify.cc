// Implements Model::classify and Model::rerank.
#include <algorithm>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "ballast/model.h"
#include "engine/model_state.h"
#include "engine/text_classifier.h"
#include "engine/text_prompts.h"
#include "engine/text_runner.h"

namespace ballast {

namespace {

using engine::EncodedText;

/// Returns the number of tokens that a text may have.
std::size_t most_tokens(const Model& model, const ClassifyOptions& options) {
  return std::min(options.most_tokens.value_or(model.context_length()), model.context_length());
}

/// Removes the scores of special tokens and stores the texts of the others.
void keep_text_tokens(const text::Tokenizer& tokenizer, const EncodedText& text, std::size_t labels,
                      TextScores& result) {
  std::vector<float> kept;
  for (std::size_t i = 0; i < text.ids.size(); ++i) {
    if (tokenizer.is_special(text.ids[i])) continue;
    result.tokens.push_back(tokenizer.token_bytes(text.ids[i]));
    const auto row = result.scores.begin() + static_cast<std::ptrdiff_t>(i * labels);
    kept.insert(kept.end(), row, row + static_cast<std::ptrdiff_t>(labels));
  }
  result.scores = std::move(kept);
}

Classification classify_encoded(const model::Model& model, const text::Tokenizer& tokenizer,
                                std::span<const EncodedText> texts, const ClassifyOptions& options,
                                const Progress& progress) {
  const model::Classifier* classifier = model.classifier();
  if (classifier == nullptr) {
    throw Error(model.source().checkpoint().path().string(),
                "has no classifier (its config.json names no class for sequence or token classification)");
  }
  const ClassifierSpec& spec = classifier->spec();
  const std::size_t labels = spec.labels.size();
  Classification result{.labels = spec.labels, .texts = std::vector<TextScores>(texts.size())};
  for (const EncodedText& text : texts) {
    result.tokens += text.ids.size();
    result.cut += text.cut ? 1 : 0;
  }
  const auto read = [&](std::size_t text, std::span<const float> rows) {
    engine::TextClassifier reader(*classifier, model.spec().hidden_size);
    reader.read(rows);
    TextScores& scores = result.texts[text];
    scores.scores = reader.scores();
    if (spec.of_tokens) keep_text_tokens(tokenizer, texts[text], labels, scores);
    if (options.raw_scores) return;
    for (std::size_t row = 0; row < scores.scores.size(); row += labels) {
      engine::apply_function(spec.function, std::span(scores.scores).subspan(row, labels));
    }
  };
  engine::run_texts(model, options.cache_type, texts, "classifying", progress, read);
  return result;
}

/// Returns the cosines of the documents' vectors with the query's.
Ranking compare_vectors(const Model& model, const std::string& query, std::span<const std::string> documents,
                        const ClassifyOptions& options, const Progress& progress) {
  EmbedOptions embed = {.normalized = true, .most_tokens = options.most_tokens, .cache_type = options.cache_type};
  embed.prompt_name = engine::query_prompt(model.spec());
  const TextVectors of_query = model.embed(std::span(&query, 1), embed);
  embed.prompt_name = engine::document_prompt(model.spec());
  const TextVectors of_documents = model.embed(documents, embed, progress);
  Ranking ranking{
      .scores = {}, .tokens = of_query.tokens + of_documents.tokens, .cut = of_query.cut + of_documents.cut};
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const std::span<const float> vector = std::span(of_documents.values).subspan(i * of_query.size, of_query.size);
    double product = 0;
    for (std::size_t c = 0; c < vector.size(); ++c) product += double{of_query.values[c]} * double{vector[c]};
    ranking.scores.push_back(static_cast<float>(product));
  }
  return ranking;
}

}  // namespace

Classification Model::classify(std::span<const std::string> texts, const ClassifyOptions& options,
                               const Progress& progress) const {
  if (spec().classifier && spec().classifier->token_score) {
    throw Error(path().string(), "scores pairs of a query and a document only");
  }
  const std::vector<EncodedText> encoded = engine::encode_texts(texts.size(), [&](std::size_t i) {
    return engine::encode_text(state_->tokenizer(), texts[i], most_tokens(*this, options));
  });
  return classify_encoded(state_->model, state_->tokenizer(), encoded, options, progress);
}

Classification Model::classify(std::span<const TextPair> pairs, const ClassifyOptions& options,
                               const Progress& progress) const {
  const std::vector<EncodedText> encoded = engine::encode_texts(pairs.size(), [&](std::size_t i) {
    return engine::encode_pair(spec(), state_->tokenizer(), pairs[i], most_tokens(*this, options));
  });
  return classify_encoded(state_->model, state_->tokenizer(), encoded, options, progress);
}

Ranking Model::rerank(const std::string& query, std::span<const std::string> documents, const ClassifyOptions& options,
                      const Progress& progress) const {
  if (!spec().classifier && !spec().makes_vectors()) {
    throw Error(path().string(), "is a decoder of texts, which was trained neither for scores nor for vectors");
  }
  if (!spec().classifier) return compare_vectors(*this, query, documents, options, progress);
  if (spec().classifier->of_tokens || spec().classifier->labels.size() != 1) {
    throw Error(path().string(), "cannot order documents: its classifier has " +
                                     std::to_string(spec().classifier->labels.size()) +
                                     " labels; one for a text is needed");
  }
  std::vector<TextPair> pairs;
  for (const std::string& document : documents) pairs.push_back({.first = query, .second = document});
  const Classification scored = classify(pairs, options, progress);
  Ranking ranking{.scores = {}, .tokens = scored.tokens, .cut = scored.cut};
  for (const TextScores& text : scored.texts) ranking.scores.push_back(text.scores.front());
  return ranking;
}

}  // namespace ballast
