// Implements Model::embed_sparse and Model::embed_tokens.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ballast/error.h"
#include "ballast/model.h"
#include "engine/embed_texts.h"
#include "engine/model_state.h"
#include "engine/text_runner.h"
#include "kernels/statistics.h"

namespace ballast {

namespace {

/// Returns the outputs of a head for `rows` of a text's tokens.
std::vector<float> apply_head(const model::Linear& head, std::span<const float> rows) {
  const std::size_t count = rows.size() / head.cols();
  std::vector<float> values(count * head.rows());
  const model::LinearOutput output[] = {{&head, values.data(), head.rows()}};
  model::LinearScratch scratch;
  model::apply(output, model::LinearRows(rows.data(), head.cols()), model::StepRows::outside(count), scratch);
  if (!kernels::all_finite(values.data(), values.size())) {
    throw Error("embedding", "the model's output is not finite");
  }
  return values;
}

void make_unit_length(std::span<float> vector) {
  double squares = 0;
  for (const float value : vector) squares += double{value} * double{value};
  if (squares == 0) return;
  const auto factor = static_cast<float>(1 / std::sqrt(squares));
  for (float& value : vector) value *= factor;
}

const model::Linear& require_head(const std::optional<model::Linear>& head, const std::string& model,
                                  const char* file) {
  if (!head) throw Error(model, std::string("has no ") + file + ", which makes these of its tokens");
  return *head;
}

}  // namespace

std::vector<WordWeights> Model::embed_sparse(std::span<const std::string> texts, const EmbedOptions& options,
                                             const Progress& progress) const {
  const model::Model& model = state_->model;
  const model::Linear& head = require_head(model.token_heads().weight, path().string(), "sparse_linear.pt");
  const std::vector<engine::EncodedText> encoded = engine::encode_for_vectors(*state_, texts, options);
  std::vector<WordWeights> result(texts.size());
  const auto read = [&](std::size_t text, std::span<const float> rows) {
    const std::vector<float> weights = apply_head(head, rows);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const int id = encoded[text].ids[i];
      if (weights[i] <= 0 || state_->tokenizer().is_special(id)) continue;
      float& weight = result[text][id];
      weight = std::max(weight, weights[i]);
    }
  };
  engine::run_texts(model, options.cache_type, encoded, "embedding", progress, read);
  return result;
}

TokenVectors Model::embed_tokens(std::span<const std::string> texts, const EmbedOptions& options,
                                 const Progress& progress) const {
  const model::Model& model = state_->model;
  const model::Linear& head = require_head(model.token_heads().vector, path().string(), "colbert_linear.pt");
  const std::vector<engine::EncodedText> encoded = engine::encode_for_vectors(*state_, texts, options);
  TokenVectors result{.size = head.rows(), .texts = std::vector<std::vector<float>>(texts.size())};
  const auto read = [&](std::size_t text, std::span<const float> rows) {
    std::vector<float>& vectors = result.texts[text];
    vectors = apply_head(head, rows.subspan(head.cols()));  // without the first token
    for (std::size_t begin = 0; begin < vectors.size(); begin += result.size) {
      make_unit_length(std::span(vectors).subspan(begin, result.size));
    }
  };
  engine::run_texts(model, options.cache_type, encoded, "embedding", progress, read);
  return result;
}

}  // namespace ballast
