#include "quant/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ballast/error.h"

namespace ballast::quant {

namespace {

void check(const BatchNorm& norm, const WorkingLinear& linear) {
  for (const std::vector<float>* vector : {&norm.gain, &norm.bias, &norm.mean, &norm.variance}) {
    if (vector->size() != linear.rows) {
      throw Error(linear.name, "has " + std::to_string(linear.rows) + " outputs, the BatchNorm behind it " +
                                   std::to_string(vector->size()) + " channels: they do not belong together");
    }
  }
  for (const float variance : norm.variance) {
    if (!(double{variance} + norm.epsilon > 0) || !std::isfinite(variance)) {
      throw Error(linear.name, "the BatchNorm behind it has a variance of " + std::to_string(variance) +
                                   ": its statistics are broken");
    }
  }
}

}  // namespace

void fold_batch_norm(const BatchNorm& norm, WorkingLinear& linear) {
  check(norm, linear);
  linear.bias.resize(linear.rows, 0.0F);
  float largest = 0;
  for (std::size_t r = 0; r < linear.rows; ++r) {
    const double factor = double{norm.gain[r]} / std::sqrt(double{norm.variance[r]} + norm.epsilon);
    const double bias = (double{linear.bias[r]} - double{norm.mean[r]}) * factor + double{norm.bias[r]};
    linear.bias[r] = static_cast<float>(bias);
    largest = std::max(largest, std::nextafter(static_cast<float>(std::abs(factor)), INFINITY));
    if (linear.values.empty()) continue;
    float* row = linear.values.data() + r * linear.cols;
    for (std::size_t c = 0; c < linear.cols; ++c) row[c] = static_cast<float>(double{row[c]} * factor);
  }
  linear.absmax *= largest;
}

}  // namespace ballast::quant
