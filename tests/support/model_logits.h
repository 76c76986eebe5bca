// Logits of a whole model, for comparison with another one.
#ifndef BALLAST_TESTS_SUPPORT_MODEL_LOGITS_H_
#define BALLAST_TESTS_SUPPORT_MODEL_LOGITS_H_

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <vector>

#include "model/model.h"
#include "model_runs.h"

namespace ballast::test {

/// Returns logits [40][vocab] for different tokens, from a model with at least 67 tokens.
inline std::vector<float> logits_of(const std::filesystem::path& path) {
  const model::Model model(path);
  std::vector<int> ids(40);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i * 23 % model.spec().vocab_size);
  ids[0] = 1;
  model::SequenceState state = model.make_exact_state(ids.size());
  return run_tokens(model, ids, state);
}

/// Returns the root mean square of the difference, divided by that of `expected`.
inline double distance(const std::vector<float>& got, const std::vector<float>& expected) {
  REQUIRE(got.size() == expected.size());
  double error = 0;
  double size = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += std::pow(double{got[i]} - double{expected[i]}, 2);
    size += std::pow(double{expected[i]}, 2);
  }
  return std::sqrt(error / size);
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_MODEL_LOGITS_H_
