// The steps of a conversion. Each sees one block at a time, in order.
#ifndef BALLAST_QUANT_PASSES_H_
#define BALLAST_QUANT_PASSES_H_

#include <memory>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "ballast/recipe.h"
#include "quant/working_block.h"

namespace ballast::quant {

/// A pass must come to the same formats, outlier columns and statistics on a block without values (a plan).
class Pass {
 public:
  virtual ~Pass() = default;
  virtual void run(WorkingBlock& block) = 0;

  /// What was done to all blocks, in one line.
  virtual std::string note() const = 0;
};

/// Norm gains into the linears that read the norm's output (exact): W[r][c] *= gain[c] in F64, gain = 1.
std::unique_ptr<Pass> make_fold_norms();

/// Sets the format of every matrix of a block, as the recipe says. Not a pass: it decides, it changes nothing yet.
class FormatChooser {
 public:
  explicit FormatChooser(const Recipe& recipe);
  void choose(WorkingBlock& block) const;

 private:
  WeightFormat format_for(const WorkingLinear& linear) const;

  Recipe recipe_;
  std::vector<std::pair<std::regex, WeightFormat>> exceptions_;
};

/// Picks the input channels that stay in 16 bits, `fraction` of each input's: those with the largest magnitudes where
/// activations become INT8, those with the most energy where only the weights are rounded (8-bit weights beside float
/// activations need none).
std::unique_ptr<Pass> make_split_outliers(double fraction, Recipe::Activations activations);

/// Rounds every matrix to the nearest values of its format.
std::unique_ptr<Pass> make_quantize();

/// The passes that a recipe names, in order.
std::vector<std::unique_ptr<Pass>> make_passes(const Recipe& recipe);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_PASSES_H_
