// The steps of a conversion. Each sees one block at a time, in order.
#ifndef BALLAST_QUANT_PASSES_H_
#define BALLAST_QUANT_PASSES_H_

#include <memory>
#include <string>
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

/// Picks the input channels that stay in 16 bits: those with the largest magnitudes, `fraction` of each input's.
std::unique_ptr<Pass> make_split_outliers(double fraction);

/// Gives every matrix its format and rounds it to nearest.
std::unique_ptr<Pass> make_quantize(const Recipe& recipe);

/// The passes that a recipe names, in order.
std::vector<std::unique_ptr<Pass>> make_passes(const Recipe& recipe);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_PASSES_H_
