// Measures how far two models agree about the same texts.
#ifndef BALLAST_EVAL_VECTOR_AGREEMENT_H_
#define BALLAST_EVAL_VECTOR_AGREEMENT_H_

#include <cstddef>
#include <span>

#include "ballast/embed.h"

namespace ballast::eval {

/// Sets the cosines and agreements of `result`. Both inputs are [texts][size] with at least two texts, none of them all
/// zero.
void compare_vectors(std::span<const float> vectors, std::span<const float> expected, std::size_t size,
                     VectorComparison& result);

/// Returns Pearson's correlation of ranks; equal values share the mean of their ranks. It is 1 if all values are equal
/// in both inputs, 0 if in one.
double rank_correlation(std::span<const double> a, std::span<const double> b);

}  // namespace ballast::eval

#endif  // BALLAST_EVAL_VECTOR_AGREEMENT_H_
