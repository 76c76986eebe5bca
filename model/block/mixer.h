// The part of a layer that moves information between the tokens of a sequence: attention, or a recurrence.
#ifndef BALLAST_MODEL_BLOCK_MIXER_H_
#define BALLAST_MODEL_BLOCK_MIXER_H_

#include <cstddef>
#include <functional>

#include "model/arch/role.h"

namespace ballast::model {

struct BlockPass;
struct Linear;
class LinearRows;
struct Norm;

/// One layer's mixer with its weights. Immutable: any number of threads may run it.
class Mixer {
 public:
  Mixer() = default;
  Mixer(const Mixer&) = delete;
  Mixer& operator=(const Mixer&) = delete;
  virtual ~Mixer() = default;

  /// Adds the output projection's result for input [tokens][hidden_size] to hidden [tokens][hidden_size]; the input may
  /// be computed from hidden but is not a part of it. The tokens are grouped by the sequences of pass.batch; a
  /// sequence's result is the same bits in any batch and for any division of its tokens into calls. Returns the rows of
  /// hidden that continue: all, or with wanted_only those of the wanted tokens (keep_wanted_rows).
  virtual std::size_t forward(const BlockPass& pass, const LinearRows& input, float* hidden) const = 0;

  virtual void for_each_linear(const std::function<void(const Linear&, Role)>& visit) const = 0;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_BLOCK_MIXER_H_
