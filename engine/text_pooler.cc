#include "engine/text_pooler.h"

#include <algorithm>
#include <cmath>

#include "ballast/error.h"

namespace ballast::engine {

void TextPooler::read(std::span<const float> rows) {
  const std::size_t size = sums_.size();
  for (std::size_t row = 0; row * size < rows.size(); ++row) {
    const std::span<const float> values = rows.subspan(row * size, size);
    ++rows_;
    if (pooling_ == Pooling::kFirst && rows_ > 1) return;
    if (pooling_ == Pooling::kLast) std::ranges::fill(sums_, 0.0);
    for (std::size_t i = 0; i < size; ++i) sums_[i] += double{values[i]};
  }
}

std::vector<float> TextPooler::pooled() const {
  const double rows = pooling_ == Pooling::kMean ? static_cast<double>(rows_) : 1.0;
  std::vector<float> values;
  values.reserve(sums_.size());
  for (const double sum : sums_) values.push_back(static_cast<float>(sum / rows));
  return values;
}

std::vector<float> TextPooler::vector(const model::TextDense& dense, bool normalized, std::size_t dimensions) const {
  std::vector<double> values = sums_;
  if (!dense.empty()) {
    std::vector<float> passed = pooled();
    dense.apply(passed);
    values.assign(passed.begin(), passed.end());
  }
  if (dimensions > 0) values.resize(std::min(values.size(), dimensions));
  double squares = 0;
  for (const double value : values) squares += value * value;
  if (!std::isfinite(squares) || squares == 0) {
    throw Error("embedding", "the model's output is not finite, or all zero");
  }
  const bool is_sum = dense.empty() && pooling_ == Pooling::kMean;
  const double divisor = normalized ? std::sqrt(squares) : is_sum ? static_cast<double>(rows_) : 1.0;
  std::vector<float> vector;
  vector.reserve(values.size());
  for (const double value : values) vector.push_back(static_cast<float>(value / divisor));
  return vector;
}

}  // namespace ballast::engine
