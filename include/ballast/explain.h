// Explains what a conversion does with each bias and gain of a model, and why, without converting it.
#ifndef BALLAST_EXPLAIN_H_
#define BALLAST_EXPLAIN_H_

#include <filesystem>
#include <string>
#include <vector>

#include "ballast/convert.h"
#include "ballast/recipe.h"
#include "ballast/spec.h"

namespace ballast {

struct FoldLine {
  enum class Outcome {
    kKept,
    kFolded,       ///< multiplied or added into `into`
    kDropped,      ///< it has no effect
    kPartDropped,  ///< a part of it has no effect
    kApplied,      ///< a transformation that is not a fold of one tensor
  };
  std::string what;  ///< "model.layers.*.self_attn.k_proj bias", "rotation of values"
  Outcome outcome = Outcome::kKept;
  std::string into;    ///< kFolded: "model.layers.*.self_attn.o_proj bias"
  std::string reason;  ///< why it is exact, or why it is not done
};

/// Returns "kept", "folded", "dropped", "part dropped" or "applied".
std::string fold_outcome_name(FoldLine::Outcome outcome);

/// Returns lines in the order of the forward pass, with equal layers as one; then the free transformations. Throws
/// Error if ballast does not know `spec.architecture`.
std::vector<FoldLine> explain_folds(const ModelSpec& spec, const Recipe& recipe);

/// Returns the same for a model's files, converted to `output_format`, which may not be able to hold a fold's result.
/// Throws Error.
std::vector<FoldLine> explain_folds(const std::filesystem::path& model, const Recipe& recipe,
                                    OutputFormat output_format = OutputFormat::kBallast);

/// Returns the object that `ballast convert --explain --json` prints.
std::string fold_lines_json(const std::vector<FoldLine>& lines);

}  // namespace ballast

#endif  // BALLAST_EXPLAIN_H_
