// The linears after a model's last norm that score texts or tokens.
#ifndef BALLAST_MODEL_CLASSIFIER_H_
#define BALLAST_MODEL_CLASSIFIER_H_

#include <optional>
#include <span>
#include <vector>

#include "ballast/spec.h"
#include "kernels/matrix/quantized_matrix.h"
#include "model/block/block_parts.h"
#include "model/block/weights.h"

namespace ballast::model {

/// Immutable: any number of threads may use it.
class Classifier {
 public:
  /// Precondition: spec.classifier. `head` is used for a TokenScoreSpec only.
  Classifier(const ModelSpec& spec, const BlockParts& parts, const Linear& head);

  const ClassifierSpec& spec() const { return spec_; }

  /// Returns scores [m][labels] for hidden values [m][hidden_size] after the last norm: of tokens, or pooled ones.
  std::vector<float> scores(std::span<const float> hidden, LinearScratch& scratch) const;

 private:
  ClassifierSpec spec_;
  std::optional<Linear> transform_;
  Norm norm_;  ///< without a gain: no norm
  Linear linear_;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_CLASSIFIER_H_
