// Computes a classifier's scores of a text from the hidden values of its tokens.
#ifndef BALLAST_ENGINE_TEXT_CLASSIFIER_H_
#define BALLAST_ENGINE_TEXT_CLASSIFIER_H_

#include <span>
#include <vector>

#include "ballast/spec.h"
#include "engine/sequence.h"
#include "engine/text_pooler.h"
#include "model/classifier.h"

namespace ballast::engine {

/// Reads hidden values as they are computed.
class TextClassifier : public HiddenReader {
 public:
  /// `classifier` must outlive it.
  TextClassifier(const model::Classifier& classifier, std::size_t hidden_size)
      : classifier_(classifier), pooler_(classifier.spec().pooling, hidden_size) {}

  void read(std::span<const float> rows) override;

  /// Returns scores [labels] of the text, or [tokens][labels] if the classifier is one of tokens, before
  /// ClassifierSpec::function. Throws Error if they are not finite.
  std::vector<float> scores() const;

 private:
  const model::Classifier& classifier_;
  TextPooler pooler_;
  std::vector<float> rows_;  ///< of all tokens, if they have scores each
};

/// Turns scores [labels] of one text or token into probabilities by the function.
void apply_function(ClassifierSpec::Function function, std::span<float> scores);

}  // namespace ballast::engine

#endif  // BALLAST_ENGINE_TEXT_CLASSIFIER_H_
