// Which folds leave a model's function as it is. Passes that fold and the page that explains them ask here; the proofs
// are in docs/folds.md.
#ifndef BALLAST_QUANT_PASSES_FOLD_RULES_H_
#define BALLAST_QUANT_PASSES_FOLD_RULES_H_

#include <string>

#include "ballast/spec.h"
#include "model/arch/role.h"

namespace ballast::quant {

struct FoldLegality {
  bool legal = false;
  std::string reason;  ///< why, or why not, as a user may read it
};

/// A norm's gain into the columns of all linears that read it.
FoldLegality gain_fold(const ModelSpec& spec, model::Role norm);

/// A norm's bias into the biases of all linears that read it. Precondition: the norm has one.
FoldLegality norm_bias_fold(const ModelSpec& spec, model::Role norm);

/// LayerNorm to RMSNorm, by centring all that is added to the residual stream.
FoldLegality layer_norm_to_rms(const ModelSpec& spec);

/// The values' bias, through the attention's weights, into the bias of the output projection.
FoldLegality value_bias_fold(const ModelSpec& spec);

/// How much of the keys' bias softmax cancels.
struct KeyBiasRuling {
  enum class Drop { kNone, kUnrotated, kWhole };
  Drop drop = Drop::kNone;
  std::string reason;
};
KeyBiasRuling key_bias_drop(const ModelSpec& spec);

/// A factor for each value channel, taken back by the output projection's columns.
FoldLegality value_scaling(const ModelSpec& spec);

/// A factor for each hidden channel of an MLP: up's rows, and down's columns the inverse. Factors must be positive.
FoldLegality up_scaling(const ModelSpec& spec);

/// An orthogonal matrix on the values of each head, taken back by the output projection's columns.
FoldLegality value_rotation(const ModelSpec& spec);

/// An orthogonal matrix on the residual stream, taken back by the columns of all linears that read it.
FoldLegality residual_rotation(const ModelSpec& spec, bool norms_are_folded);

/// Why the bias of a linear stays that no fold above is about: queries, MLP, output, head.
std::string why_bias_stays(const ModelSpec& spec, model::Role linear);

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_PASSES_FOLD_RULES_H_
