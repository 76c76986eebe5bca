// What a conversion does with each bias and gain of a model, and why: nothing is converted for it.
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
    kFolded,       ///< multiplied or added into what `into` names
    kDropped,      ///< it changes nothing
    kPartDropped,  ///< a part of it changes nothing
    kApplied,      ///< a transformation that is no fold of one tensor
  };
  std::string what;  ///< "model.layers.*.self_attn.k_proj bias", "rotation of values"
  Outcome outcome = Outcome::kKept;
  std::string into;    ///< kFolded: "model.layers.*.self_attn.o_proj bias"
  std::string reason;  ///< why that is exact, or why it is not done
};

/// "kept", "folded", "dropped", "part dropped", "applied".
std::string fold_outcome_name(FoldLine::Outcome outcome);

/// In the order of the forward pass, layers that are alike as one; then the transformations that the algebra leaves
/// free. Throws Error when `spec.architecture` is not one that ballast knows.
std::vector<FoldLine> explain_folds(const ModelSpec& spec, const Recipe& recipe);

/// The same for a model's files, converted to `output_format`, which may have no place for what a fold makes. Throws
/// Error.
std::vector<FoldLine> explain_folds(const std::filesystem::path& model, const Recipe& recipe,
                                    OutputFormat output_format = OutputFormat::kBallast);

/// The object that `ballast convert --explain --json` prints.
std::string fold_lines_json(const std::vector<FoldLine>& lines);

}  // namespace ballast

#endif  // BALLAST_EXPLAIN_H_
