#include "model/classifier.h"

#include "kernels/activation.h"
#include "model/forward/forward.h"

namespace ballast::model {

Classifier::Classifier(const ModelSpec& spec, const BlockParts& parts)
    : spec_(*spec.classifier), linear_(parts.linear({Role::kClassifier})) {
  if (spec_.transform) transform_ = parts.linear({Role::kClassifierTransform});
  if (spec_.transform_norm) norm_ = parts.norm(Role::kClassifierNorm);
}

std::vector<float> Classifier::scores(std::span<const float> hidden, kernels::QuantizedActivations& scratch) const {
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
