// Models of families that transformers does not have: random weights, and the logits of the reference.
#ifndef BALLAST_TESTS_SUPPORT_FAMILY_MODEL_H_
#define BALLAST_TESTS_SUPPORT_FAMILY_MODEL_H_

#include <filesystem>
#include <vector>

#include "described.h"
#include "model_runs.h"
#include "reference/model.h"
#include "temporary_directory.h"

namespace ballast::test {

inline const std::vector<int> kFamilyIds = {1, 5, 2, 8, 0, 7, 7, 3, 6, 4, 9, 2};

/// Returns the error of a written model's logits against those of the reference with `tensors`, at once and, for a
/// decoder, token by token.
inline double family_error(const TinyModel& written, const ModelSpec& spec, const RoleTensors& tensors) {
  const TemporaryDirectory directory;
  model::Model model(written.write(directory / "model"));
  const std::vector<double> expected = ReferenceModel(spec, tensors).logits(kFamilyIds);
  const double at_once = relative_error(run_at_once(model, kFamilyIds), expected);
  if (!spec.causal) return at_once;
  return std::max(at_once, relative_error(run_in_pieces(model, kFamilyIds, 1), expected));
}

}  // namespace ballast::test

#endif  // BALLAST_TESTS_SUPPORT_FAMILY_MODEL_H_
