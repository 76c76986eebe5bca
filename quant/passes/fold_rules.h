// Decides which folds keep a model's function. Used by the passes and the page that explains them; folds through a
// mixer are decided by the mixer (model/mixer/value_path.h). The proofs are in docs/folds.md.
#ifndef BALLAST_QUANT_PASSES_FOLD_RULES_H_
#define BALLAST_QUANT_PASSES_FOLD_RULES_H_

#include <cstddef>
#include <string>

#include "ballast/spec.h"
#include "model/arch/role.h"
#include "model/mixer/value_path.h"

namespace ballast::quant {

using model::FoldLegality;

/// A norm's gain into the columns of all linears that read it. `layer` is ignored for norms outside of blocks.
FoldLegality gain_fold(const ModelSpec& spec, std::size_t layer, model::Role norm);

/// A norm's bias into the biases of all linears that read it. Precondition: the norm has one.
FoldLegality norm_bias_fold(const ModelSpec& spec, std::size_t layer, model::Role norm);

/// LayerNorm to RMSNorm, by centring all that is added to the residual stream.
FoldLegality layer_norm_to_rms(const ModelSpec& spec);

/// The part of the keys' bias that softmax cancels.
struct KeyBiasRuling {
  enum class Drop { kNone, kUnrotated, kWhole };
  Drop drop = Drop::kNone;
  std::string reason;
};
KeyBiasRuling key_bias_drop(const LayerSpec& layer);

/// A factor for each hidden channel of an MLP on up's rows, and the inverse on down's columns. Factors must be
/// positive.
FoldLegality up_scaling(const MlpSpec& mlp);

/// An orthogonal matrix on the residual stream, undone in the columns of all linears that read it.
FoldLegality residual_rotation(const ModelSpec& spec, bool norms_are_folded);

/// Why the bias of a linear stays that no fold above is about: queries, MLP, output, head.
std::string why_bias_stays(const LayerSpec& layer, model::Role linear);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_PASSES_FOLD_RULES_H_
