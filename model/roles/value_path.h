// Which folds pass through a mixer: defined by the mixer, used by the passes of a conversion and by `convert
// --explain`. The proofs are in docs/folds.md.
#ifndef BALLAST_MODEL_ROLES_VALUE_PATH_H_
#define BALLAST_MODEL_ROLES_VALUE_PATH_H_

#include <cstddef>
#include <string>

#include "model/arch/role.h"

namespace ballast::model {

/// Whether a fold preserves a model's function.
struct FoldLegality {
  bool legal = false;
  std::string reason;  ///< why it does or does not, for users
};

/// The path of values through a mixer: the rows of one linear write channels that the columns of its output projection
/// read in the same order, head by head. `sharing` neighbouring heads of the output read one head of values.
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

#endif  // BALLAST_MODEL_ROLES_VALUE_PATH_H_
