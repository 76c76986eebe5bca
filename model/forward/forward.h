// The forward pass of one block over a batch of sequences, which can record its activations for calibration.
#ifndef BALLAST_MODEL_FORWARD_FORWARD_H_
#define BALLAST_MODEL_FORWARD_FORWARD_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ballast/spec.h"
#include "kernels/attention/key_bias.h"
#include "model/block/block_pass.h"
#include "model/block/weights.h"
#include "model/mixer/sequence_state.h"

namespace ballast::model {

class RopeTable;

/// The angles of all layers: layers with the same rotation share a set.
class RopeAngles {
 public:
  /// Returns the angles of a layer; empty if the layer does not rotate.
  const AngleSet& of_layer(std::size_t layer) const;

 private:
  friend class RopeTable;
  const RopeTable* table_ = nullptr;
  std::vector<AngleSet> sets_;
};

/// The rotations of a model's layers.
class RopeTable {
 public:
  explicit RopeTable(const ModelSpec& spec);

  /// Computes the angles of a batch. They refer to this table, and their memory is reused from batch to batch.
  void look_up(std::span<const BatchSequence> batch, RopeAngles& angles) const;

 private:
  friend class RopeAngles;

  struct Rotation {
    RopeSpec spec;
    std::size_t offset = 0;  ///< of the rotated channels in a head
    std::vector<double> frequencies;
    kernels::KeyRotation keys;

    void fill(std::span<const BatchSequence> batch, bool in_slots, std::vector<float>& cos,
              std::vector<float>& sin) const;
  };

  std::vector<Rotation> rotations_;
  std::vector<std::optional<std::size_t>> of_layer_;  ///< index of the layer's rotation, if it has one
};

/// Returns whether a last block can skip work that only unwanted tokens need.
inline bool can_keep_wanted_only(const ModelSpec& spec) {
  return spec.layout == BlockLayout::kPreNorm || spec.layout == BlockLayout::kOutputNorm;
}

/// Runs a block on hidden [tokens][hidden_size], in place. Appends the batch's tokens to layer `state_layer` of each
/// sequence's state, without advancing it; if the layer reads another layer's keys and values (cache_layer), these must
/// have been appended. `layer` is the block's index in the model.
void forward_block(const ModelSpec& spec, const BlockWeights& block, std::size_t layer, const RopeAngles& angles,
                   std::span<const BatchSequence> batch, std::size_t state_layer, float* hidden,
                   BlockActivations& activations, const ForwardOptions& options = {});

/// Runs an expert on chosen tokens, independent of the router. Spec and block must outlive it.
class LoneExpert {
 public:
  LoneExpert(const ModelSpec& spec, const BlockWeights& block, std::size_t layer, std::size_t expert);

  /// Returns the input of its last linear for rows [count][hidden_size] of the router's input: [count][its columns],
  /// valid until the activations' next use.
  const float* down_rows(const float* rows, std::size_t count, BlockActivations& activations) const;

 private:
  /// Returns the input of the expert for these rows where its score multiplies it; else empty.
  std::vector<float> weighted_rows(const float* rows, std::size_t count, BlockActivations& activations) const;

  const ModelSpec& spec_;
  const BlockWeights& block_;
  std::size_t layer_;
  std::size_t expert_;
  std::shared_ptr<const MlpWeights> loaded_;  ///< null if it is one of the block's
  const MlpWeights* weights_;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_FORWARD_FORWARD_H_
