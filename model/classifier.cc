#include "model/classifier.h"

#include <utility>

#include "kernels/activation.h"
#include "model/forward/forward.h"

namespace ballast::model {

namespace {

/// Returns a linear with one output: the logit of a token, or its difference to that of another one.
Linear make_token_linear(const ModelSpec& spec, const TokenScoreSpec& score, const Linear& head) {
  const auto add_token = [&](int token, float factor, std::vector<float>& sums, float& bias) {
    std::vector<float> row(sums.size());
    decode_row(head, static_cast<std::size_t>(token), row.data());
    for (std::size_t c = 0; c < row.size(); ++c) sums[c] += factor * row[c];
    if (!head.bias.empty()) bias += factor * head.bias[static_cast<std::size_t>(token)];
  };
  const auto scale = static_cast<float>(spec.logit_scale);
  FloatMatrixHolder holder;
  holder.owned.resize(spec.hidden_size);
  float bias = 0;
  add_token(score.token, scale, holder.owned, bias);
  if (score.other_token) add_token(*score.other_token, -scale, holder.owned, bias);
  holder.matrix = {.data = holder.owned.data(), .type = kernels::FloatType::kF32, .rows = 1, .cols = spec.hidden_size};
  Linear linear;
  linear.name = head.name;
  linear.weights = std::move(holder);
  linear.bias = {bias};
  return linear;
}

}  // namespace

Classifier::Classifier(const ModelSpec& spec, const BlockParts& parts, const Linear& head)
    : spec_(*spec.classifier),
      linear_(spec_.token_score ? make_token_linear(spec, *spec_.token_score, head)
                                : parts.linear({Role::kClassifier})) {
  if (spec_.transform) transform_ = parts.linear({Role::kClassifierTransform});
  if (spec_.transform_norm) norm_ = parts.norm(Role::kClassifierNorm);
}

std::vector<float> Classifier::scores(std::span<const float> hidden, LinearScratch& scratch) const {
  const std::size_t size = linear_.cols();
  const std::size_t m = hidden.size() / size;
  std::vector<float> transformed;
  if (transform_) {
    transformed.resize(hidden.size());
    const LinearOutput output[] = {{&*transform_, transformed.data(), size}};
    apply(output, LinearRows(hidden.data(), size), StepRows::outside(m), scratch);
    kernels::activate(*spec_.transform, transformed.data(), transformed.size());
    if (spec_.transform_norm) norm_.apply(transformed.data(), m, transformed.data());
    hidden = transformed;
  }
  std::vector<float> scores(m * spec_.labels.size());
  const LinearOutput output[] = {{&linear_, scores.data(), spec_.labels.size()}};
  apply(output, LinearRows(hidden.data(), size), StepRows::outside(m), scratch);
  return scores;
}

}  // namespace ballast::model
