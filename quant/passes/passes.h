// The steps of a conversion. Each sees one block at a time, in order.
#ifndef BALLAST_QUANT_PASSES_PASSES_H_
#define BALLAST_QUANT_PASSES_PASSES_H_

#include <memory>
#include <string>
#include <vector>

#include "ballast/recipe.h"
#include "quant/block/working_block.h"
#include "quant/passes/smoothing_factors.h"

namespace ballast::quant {

/// A pass must choose the same formats, biases and numbers of outlier columns for a block without values (a plan).
class Pass {
 public:
  virtual ~Pass() = default;
  virtual void run(WorkingBlock& block) = 0;

  /// Changes the spec to that after this pass.
  virtual void update_spec(ModelSpec&) const {}

  /// Describes the changes to all blocks in one line.
  virtual std::string note() const = 0;
};

/// Moves or drops biases (exact; see fold_rules.h): those of norms are moved into the biases of the linears that read
/// them, W beta in F64; those of values into the output projection's. Those of keys are dropped, or their part that is
/// not rotated. Biases that the spec then has for a whole kind of linears are created as zeros.
std::unique_ptr<Pass> make_fold_biases(const ModelSpec& spec);

/// Moves gains of norms into the linears that read the norm's output (exact): W[r][c] *= gain[c] in F64, gain = 1. A
/// bias that is still in the norm is divided by the gain.
std::unique_ptr<Pass> make_fold_norms();

/// Converts LayerNorm to RMSNorm (exact): removes the mean of all hidden vectors that embeddings and linears write, as
/// in SliceGPT (Ashkboos et al. 2024, arXiv:2401.15024). Does nothing and reports why if it is not legal.
std::unique_ptr<Pass> make_center_norms(const ModelSpec& spec);

/// Balances value channels and the output projection's columns, and up's and down's channels (exact): one factor s for
/// each, a power of two near sqrt(range of columns / range of rows), so that both sides have the same range
/// (cross-layer equalization, Nagel et al. 2019, arXiv:1906.04721). Which channels are large then depends on the
/// values, so a plan has only their number.
std::unique_ptr<Pass> make_equalize(const ModelSpec& spec);

/// Divides every channel of the inputs of linears by a factor s in its producer (a norm's gain, the values, up), and
/// multiplies the linears' columns by it (exact; SmoothQuant, Xiao et al. 2022, arXiv:2211.10438, and AWQ, Lin et al.
/// 2023, arXiv:2306.00978): s = activation^a / weight^b. For each input, a and b have the smallest expected error of
/// the output, or there are no factors. Linears that stay in F32 get a = b = 1/2. Needs statistics. The results for a
/// block are stored in `chosen`, and used if the block is prepared again.
std::unique_ptr<Pass> make_smooth(const Recipe& recipe, const ModelSpec& spec,
                                  std::shared_ptr<SmoothingFactors> chosen = std::make_shared<SmoothingFactors>());

/// Rotates the residual stream by an orthogonal matrix (exact; QuaRot, Ashkboos et al. 2024, arXiv:2404.00456, and
/// SpinQuant, Liu et al. 2024, arXiv:2405.16406): its writers write x R, its readers undo that. R is a Hadamard matrix
/// with random signs, the same for every model of a size. Does nothing and reports why if it is not legal.
std::unique_ptr<Pass> make_rotate_residual(const ModelSpec& spec, bool norms_are_folded);

/// Rotates the values of each head by an orthogonal matrix, undone by the output projection (exact; QuaRot, Ashkboos et
/// al. 2024, arXiv:2404.00456): a Hadamard matrix on runs of the largest power of two that divides a head.
std::unique_ptr<Pass> make_rotate_values(const ModelSpec& spec);

/// Rounds gains of norms to `type`, and compensates the rounding in the linears that read them (exact).
std::unique_ptr<Pass> make_round_gains(DType type);

/// Selects the input channels that stay in 16 bits, `fraction` of each input's: those with the largest magnitudes if
/// activations become INT8, those with the most energy if only the weights are rounded (8-bit weights with float
/// activations need none).
std::unique_ptr<Pass> make_split_outliers(double fraction);

/// Returns the passes of a recipe in order; each is made for the spec after the ones before it. `spec` becomes that of
/// the result. `smoothing` is make_smooth's.
std::vector<std::unique_ptr<Pass>> make_passes(
    const Recipe& recipe, ModelSpec& spec,
    std::shared_ptr<SmoothingFactors> smoothing = std::make_shared<SmoothingFactors>());

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_PASSES_PASSES_H_
