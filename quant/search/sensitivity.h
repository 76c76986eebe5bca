// What rounding each matrix of a model costs, in divergence of the model's predictions, for every format it could have.
#ifndef BALLAST_QUANT_SEARCH_SENSITIVITY_H_
#define BALLAST_QUANT_SEARCH_SENSITIVITY_H_

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "quant/sample_stream.h"
#include "quant/search/allocation.h"
#include "quant/working_block.h"
#include "quant/write/model_format.h"

namespace ballast::quant {

struct SensitivityOptions {
  const ModelFormat* format = nullptr;      ///< that is written: what it holds, and at how many bytes
  std::size_t probe_samples = 1;            ///< samples on which divergence is measured
  double most_outliers = 0;                 ///< share of an input's columns that may keep 16 bits
  bool shrink_experts = true;               ///< see SampleStream::What
  SampleSharing sharing{};                  ///< its ranks share the samples and the probes
  std::function<void()> check_cancelled{};  ///< see SampleStream
};

/// Goes through the blocks of a model that the exact passes have changed and nothing has rounded. Two figures make the
/// cost of a matrix in a format:
///
/// - the squared error that rounding to the format's best grids makes in the matrix's output, column by column, on a
///   part of its rows, without what GPTQ makes up for (InverseCholesky::importance);
/// - what such an error does to the predictions: every matrix is rounded to 4 bits alone, and the divergence that this
///   causes at the model's end is divided by the error. A small error's divergence grows with its square, so that one
///   probe says it for all formats. All probes pass the model side by side, one block in memory at a time.
///
/// Only matrices with a free format take part. Blocks are given back as they were.
class SensitivityAnalysis {
 public:
  /// The tokens must outlive this.
  SensitivityAnalysis(const ModelSpec& spec, const SampleTokens& tokens, const SensitivityOptions& options);

  void add_front(WorkingBlock& front);
  void add_block(WorkingBlock& block, std::size_t layer);

  /// With what comes after the last block; `front` is the same as before. Returns the choices in the order of the
  /// model.
  std::vector<InputChoice> finish(WorkingBlock& front, WorkingBlock& back);

 private:
  /// Matrices that are rounded alone: one, or those of one role in all experts of a block.
  struct Probe {
    std::vector<std::pair<std::size_t, std::size_t>> matrices;  ///< input and matrix in choices_
    model::Role role{};
    bool in_front = false;  ///< before the first block
    double error = 0;
  };

  /// A probe's matrices of a block that is at hand.
  struct BlockProbe {
    Probe probe;
    std::vector<WorkingLinear*> linears;
  };
  using BlockProbes = std::map<model::Role, BlockProbe>;

  void add_input(WorkingBlock& block, const WorkingInput& input, BlockProbes& probes);
  /// All formats that a matrix may have, with what each costs.
  void add_options(const WorkingLinear& linear, const WorkingInput& input, std::span<const float> importance,
                   MatrixChoice& matrix) const;
  /// Counts a probe in; whether this rank is the one to make it.
  bool begin_probe(BlockProbe& block_probe);
  bool is_own(std::size_t probe) const;
  void measure_divergence(WorkingBlock& front, WorkingBlock& back, BlockProbes& back_probes);
  /// Turns the errors of a probe's matrices into divergences.
  void set_costs(const Probe& probe, double divergence);

  ModelSpec spec_;
  SampleTokens tokens_;
  SensitivityOptions options_;
  SampleStream samples_;
  SampleStream base_;     ///< the probe samples in the unchanged model
  SampleStream streams_;  ///< the probe samples after each of this rank's probes, one probe after the other
  std::vector<Probe> probes_;
  std::vector<InputChoice> choices_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_SEARCH_SENSITIVITY_H_
