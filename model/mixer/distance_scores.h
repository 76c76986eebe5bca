// The parts of disentangled attention's scores that depend on the distance of query and key.
#ifndef BALLAST_MODEL_MIXER_DISTANCE_SCORES_H_
#define BALLAST_MODEL_MIXER_DISTANCE_SCORES_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "ballast/spec.h"
#include "kernels/matrix/head_matrices.h"
#include "model/block/block_pass.h"
#include "model/block/weights.h"

namespace ballast::model {

/// The rows of a DisentangledSpec, projected like keys and like queries. Immutable: any number of threads may use it.
class DistanceScores {
 public:
  /// `rows`: [DisentangledSpec::rows()][hidden], after their norm. `query` and `key` project them.
  DistanceScores(const AttentionSpec& spec, std::span<const float> rows, const Linear& query, const Linear& key);

  /// Queries and keys of all heads in a row, `stride` floats apart.
  struct Rows {
    const float* queries = nullptr;
    const float* keys = nullptr;
    std::size_t stride = 0;
  };

  /// Writes the scaled scores of each sequence's tokens with each other, [heads][tokens][tokens], one sequence after
  /// the other. Returns the values of all of them.
  const float* compute(const Rows& rows, std::span<const BatchSequence> batch, BlockActivations& activations) const;

 private:
  AttentionSpec spec_;
  std::optional<kernels::HeadMatrices> keys_;     ///< projected rows that queries meet
  std::optional<kernels::HeadMatrices> queries_;  ///< projected rows that keys meet
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_MIXER_DISTANCE_SCORES_H_
