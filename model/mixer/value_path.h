// Which folds pass through a mixer: defined by the mixer, used by the passes of a conversion and by the page that
// explains them. The proofs are in docs/folds.md.
#ifndef BALLAST_MODEL_MIXER_VALUE_PATH_H_
#define BALLAST_MODEL_MIXER_VALUE_PATH_H_

#include <cstddef>
#include <string>

#include "model/arch/role.h"

namespace ballast::model {

/// Whether a fold keeps a model's function.
struct FoldLegality {
  bool legal = false;
  std::string reason;  ///< why, or why not, as a user may read it
};

/// The way of values through a mixer: channels that the rows of one linear write and that its output projection's
/// columns read in the same order, head by head. `sharing` neighbouring heads of the output read one head of values.
struct ValuePath {
  Role value{};
  Role output{};
  std::size_t head_size = 0;  ///< channels of a head
  std::size_t sharing = 1;

  FoldLegality bias;      ///< the values' bias, as a constant, into the bias of the output projection
  FoldLegality scaling;   ///< a factor for each channel, taken back by the output projection's columns
  FoldLegality rotation;  ///< an orthogonal matrix on the channels of each head, taken back by the same columns
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MIXER_VALUE_PATH_H_
