// Decides which folds keep a model's function. Used by the passes and the page that explains them; folds through a
// mixer are decided by the mixer (model/roles/value_path.h). The proofs are in docs/folds.md.
#ifndef BALLAST_QUANT_PASSES_FOLD_RULES_H_
#define BALLAST_QUANT_PASSES_FOLD_RULES_H_

#include <cstddef>
#include <string>

#include "ballast/spec.h"
#include "model/arch/role.h"
#include "model/roles/value_path.h"

namespace ballast::quant {

using model::FoldLegality;

/// Decides whether a norm's gain can be folded into the columns of all linears that read it. `layer` is ignored for
/// norms outside of blocks.
FoldLegality gain_fold(const ModelSpec& spec, std::size_t layer, model::Role norm);

/// Decides whether a norm's bias can be folded into the biases of all linears that read it. Precondition: the norm has
/// one.
FoldLegality norm_bias_fold(const ModelSpec& spec, std::size_t layer, model::Role norm);

/// Decides whether LayerNorm can become RMSNorm, by centering everything that is added to the residual stream.
FoldLegality layer_norm_to_rms(const ModelSpec& spec);

/// The part of the keys' bias that softmax cancels.
struct KeyBiasRuling {
  enum class Drop { kNone, kUnrotated, kWhole };
  Drop drop = Drop::kNone;
  std::string reason;
};
KeyBiasRuling key_bias_drop(const LayerSpec& layer);

/// Decides whether up's rows can be multiplied by a factor for each hidden channel of an MLP, and down's columns
/// divided by it. Factors must be positive.
FoldLegality up_scaling(const MlpSpec& mlp);

/// Decides whether the residual stream can be multiplied by an orthogonal matrix, undone in the columns of all linears
/// that read it.
FoldLegality residual_rotation(const ModelSpec& spec, bool norms_are_folded);

/// Returns why the bias of a linear stays that none of the folds above concerns: queries, MLP, output, head.
std::string why_bias_stays(const LayerSpec& layer, model::Role linear);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_PASSES_FOLD_RULES_H_
