#include "engine/text_classifier.h"

#include <algorithm>
#include <cmath>

#include "ballast/error.h"

namespace ballast::engine {

void TextClassifier::read(std::span<const float> rows) {
  const ClassifierSpec& spec = classifier_.spec();
  if (spec.of_tokens || spec.pools_scores) {
    rows_.insert(rows_.end(), rows.begin(), rows.end());
  } else {
    pooler_.read(rows);
  }
}

std::vector<float> TextClassifier::scores() const {
  const ClassifierSpec& spec = classifier_.spec();
  model::LinearScratch scratch;
  std::vector<float> scores =
      classifier_.scores(spec.of_tokens || spec.pools_scores ? rows_ : pooler_.pooled(), scratch);
  if (spec.pools_scores) {
    TextPooler of_scores(spec.pooling, spec.labels.size());
    of_scores.read(scores);
    scores = of_scores.pooled();
  }
  const bool finite = std::ranges::all_of(scores, [](float score) { return std::isfinite(score); });
  if (!finite) throw Error("classification", "the model's scores are not finite");
  return scores;
}

void apply_function(ClassifierSpec::Function function, std::span<float> scores) {
  if (function == ClassifierSpec::Function::kSigmoid) {
    for (float& score : scores) score = 1.0F / (1.0F + std::exp(-score));
  } else if (function == ClassifierSpec::Function::kSoftmax) {
    const float highest = std::ranges::max(scores);
    double sum = 0;
    for (float& score : scores) sum += score = std::exp(score - highest);
    for (float& score : scores) score = static_cast<float>(score / sum);
  }
}

}  // namespace ballast::engine
