// The cost of rounding each matrix of a model, in divergence of the model's predictions, for every format that it could
// have.
#ifndef BALLAST_QUANT_SEARCH_SENSITIVITY_H_
#define BALLAST_QUANT_SEARCH_SENSITIVITY_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "quant/block/working_block.h"
#include "quant/rounding/hessian.h"
#include "quant/search/allocation.h"
#include "quant/write/model_format.h"
#include "samples/block_runner.h"

namespace ballast::quant {

/// The number of groups of neighbouring blocks whose errors continue together: each passes the rest of the model.
inline constexpr std::size_t kMostGroups = 16;

struct SensitivityOptions {
  const ModelFormat* format = nullptr;      ///< the written format: what it can hold, and in how many bytes
  std::size_t probe_samples = 1;            ///< samples on which divergence is measured
  double most_outliers = 0;                 ///< share of an input's columns that may keep 16 bits
  bool shrink_experts = true;               ///< see MeasureOptions
  bool corrects_drift = false;              ///< the weights of blocks will correct a part of their errors
  samples::SampleSharing sharing{};         ///< its ranks share the samples and the probes
  std::function<void()> check_cancelled{};  ///< see samples::BlockRunner; before each matrix, too
};

/// Measures the blocks of a model after the exact passes and before rounding. The cost of a matrix in a format has two
/// factors:
///
/// - the squared error that rounding to the format's best grids makes in the matrix's output, column by column, on a
///   part of its rows, without what GPTQ makes up for (InverseCholesky::importance);
/// - what such an error does to the predictions. Each matrix is rounded to 4 bits alone, and its errors are measured
///   where its block ends, against the size of the stream there, token by token. What errors of that size do at the
///   model's end hardly depends on the matrix that they come from, and neighbouring blocks differ little: the errors of
///   each few blocks run on together, and the divergence that they cause is shared among their matrices. A small
///   error's divergence grows with its square, so that one probe says it for all formats.
///
/// Where later weights make up for a share of these errors (correct_drift()), what weights of blocks cost is the rest;
/// what an embedding, a head or INT8 activations lose counts whole.
///
/// One block is in memory at a time, and the work grows like the model.
///
/// Only matrices with a free format take part. Blocks are given back as they were.
class SensitivityAnalysis {
 public:
  /// The tokens must outlive this object.
  SensitivityAnalysis(const ModelSpec& spec, const samples::SampleTokens& tokens, const SensitivityOptions& options);

  void add_front(WorkingBlock& front);
  void add_block(WorkingBlock& block, std::size_t layer);

  /// Must be called with the part after the last block; `front` is the same as before. Returns the choices in the order
  /// of the model, with an embedding that is also the head after the blocks.
  std::vector<InputChoice> finish(WorkingBlock& front, WorkingBlock& back);

  /// Returns the moments of the input of a head that is also the embedding, measured by finish(); otherwise null.
  const std::shared_ptr<const Hessian>& tied_head_moments() const { return tied_head_moments_; }

 private:
  /// Matrices that are rounded alone: one, or those of one role in all experts of a block.
  struct Probe {
    struct Matrix {
      std::size_t input = 0;   ///< in choices_
      std::size_t matrix = 0;  ///< of the input
      double error = 0;        ///< of its outputs
    };
    std::vector<Matrix> matrices;
    double stream_error = 0;  ///< at the end of the block, relative to the stream's size
    double divergence = 0;
    double share_kept = 1;  ///< the share of it that remains after rounding everything
    /// The divergence of the same error in the head alone, if the matrix is also the embedding.
    std::optional<double> head_divergence{};
  };

  /// Neighbouring blocks whose errors continue together.
  struct Group {
    std::size_t first_probe = 0;
    std::size_t end_probe = 0;
  };

  /// A probe's matrices in the current block.
  struct BlockProbe {
    Probe probe;
    std::vector<WorkingLinear*> linears;
  };
  using BlockProbes = std::map<model::Role, BlockProbe>;

  void add_input(WorkingBlock& block, const WorkingInput& input, BlockProbes& probes);
  /// Adds all formats that a matrix may have, with their costs.
  void add_options(const WorkingLinear& linear, const WorkingInput& input, std::span<const float> importance,
                   MatrixChoice& matrix) const;
  /// Returns whether this rank handles item `index`.
  bool is_own(std::size_t index) const;
  std::size_t group_of(std::size_t layer) const;
  /// Runs the probes of a block, from the stream before it; sums their changes of the stream after it, which is base_.
  samples::StreamRows run_probes(BlockProbes& probes, const std::function<model::BlockWeights()>& weights,
                                 std::size_t layer, const samples::StreamRows& before);
  /// Adds a change to those that continue from a block.
  void carry(samples::StreamRows change, std::size_t layer);
  /// Measures the input of the head, which is in `front` if the embedding is also the head. Must be called after the
  /// last block.
  void measure_head(WorkingBlock& front, WorkingBlock& back);
  void measure_divergences(WorkingBlock& front, WorkingBlock& back, BlockProbes& back_probes);
  /// Returns what an error in a matrix's outputs counts, relative to one in a matrix of the same probe: of a range of
  /// a vocabulary's rows by how often its tokens are predicted.
  double weight_of_errors(const ModuleId& id) const;
  /// Turns the errors of a probe's matrices into divergences.
  void set_costs(const Probe& probe);

  ModelSpec spec_;
  samples::SampleTokens tokens_;
  SensitivityOptions options_;
  samples::BlockRunner samples_;
  samples::BlockRunner base_;  ///< the probe samples in the unchanged model
  samples::BlockRunner
      copies_;  ///< this rank's copies: one for each probe before the blocks, then one for each group so far
  std::vector<model::Role> front_roles_;  ///< of the probes before the blocks
  std::vector<Probe> probes_;             ///< those in front, of blocks, of the end
  std::vector<Group> groups_;
  std::vector<InputChoice> choices_;
  std::vector<double> token_weights_;  ///< [vocabulary], from measure_divergences(): TokenWeights
  std::shared_ptr<const Hessian> tied_head_moments_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_SEARCH_SENSITIVITY_H_
