// Functions and buffers that both halves of a block use, mixer and MLP.
#ifndef BALLAST_MODEL_FORWARD_FORWARD_PARTS_H_
#define BALLAST_MODEL_FORWARD_FORWARD_PARTS_H_

#include <array>
#include <cassert>
#include <cstddef>
#include <span>
#include <vector>

#include "model/forward/forward.h"
#include "model/step_rows.h"

namespace ballast::model {

/// The linears that read one input, without allocation: at most six, which is the number of a gated delta net.
class LinearOutputs {
 public:
  void add(const LinearOutput& output) {
    assert(count_ < outputs_.size());
    outputs_[count_++] = output;
  }
  std::span<const LinearOutput> all() const { return std::span(outputs_).first(count_); }

 private:
  std::array<LinearOutput, 6> outputs_{};
  std::size_t count_ = 0;
};

/// The pass of one block over a batch.
struct BlockPass {
  const ModelSpec& spec;
  const BlockWeights& block;
  const LayerSpec& layer;
  const AngleSet& angles;
  std::span<const BatchSequence> batch;
  std::size_t state_layer;
  BlockActivations& activations;
  const ForwardOptions& options;
  StepRows rows;           ///< of hidden
  StepRows wanted_rows{};  ///< of the tokens that ForwardOptions::wanted_only keeps
  std::size_t tokens = rows.count();

  /// Returns the rows of hidden that the mixer leaves for the rest of the block.
  const StepRows& rows_after_mixer() const { return options.wanted_only ? wanted_rows : rows; }

  /// Returns one of four buffers for mixers, of at least `size` values.
  float* buffer(std::size_t index, std::size_t size) const;

  /// Runs linears that read `input`, whose rows `step` describes, and records the input if the options say so: rows in
  /// memory must then stay until the next block, as those in the activations do.
  void apply_linears(std::span<const LinearOutput> outputs, const LinearRows& input, const StepRows& step) const;

  /// Writes the rows that linears read to memory, records them as the input of these linears, and returns them.
  LinearRows record_input(std::span<const LinearOutput> outputs, const LinearRows& input, const StepRows& step) const;

  /// Records rows as the input of linears.
  void record(std::span<const Linear* const> linears, const float* input, const StepRows& step) const;
};

/// Computes sum[i] += scale * values[i].
void add_values(const float* values, std::size_t count, float scale, float* sum);

/// Moves the rows of each sequence's wanted tokens to the front. Returns their number.
std::size_t keep_wanted_rows(std::span<const BatchSequence> batch, std::size_t row_size, float* rows);

/// Adds the MLP's output for input [tokens][hidden] to hidden [tokens][hidden]; the input may be computed from hidden
/// but is not a part of it. The MLP is plain or has experts.
void forward_mlp(const BlockPass& pass, const LinearRows& input, float* hidden);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_FORWARD_FORWARD_PARTS_H_
