// The blocks that the passes of a conversion change: weights in F32, and their statistics.
#ifndef BALLAST_QUANT_BLOCK_WORKING_BLOCK_H_
#define BALLAST_QUANT_BLOCK_WORKING_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ballast/recipe.h"
#include "ballast/statistics.h"
#include "calib/input_statistics.h"
#include "formats/code_matrix.h"
#include "model/source/linear_folds.h"
#include "model/source/model_source.h"
#include "model/structure/block_structure.h"
#include "quant/block/module_id.h"
#include "quant/rounding/drift.h"
#include "quant/rounding/expert_moments.h"
#include "quant/rounding/hessian.h"
#include "quant/rounding/input_peaks.h"

namespace ballast::quant {

/// A matrix, or a range of rows of a vocabulary's matrix, which then is a matrix of its own in everything that follows:
/// `part.expert` is the range's index.
struct WorkingLinear {
  model::Part part;
  std::string name;
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::vector<float> values;   ///< [rows][cols]; empty in a plan, and if they are loaded on demand
  std::vector<float> bias;     ///< [rows], or empty; in a plan zeros
  float absmax = 0;            ///< bound on |values|; 0 in a plan
  model::LinearFolds folds{};  ///< by passes
  std::uint64_t bytes_before = 0;

  WeightFormat format;
  bool free_format = false;  ///< integers that were not named by the user: an allocation may choose others
  ActivationType activations = ActivationType::kInt16;  ///< what its input becomes when its weights are codes
  std::vector<std::int32_t> outlier_columns;
  std::optional<DType> scale_type{};  ///< of its scales, if the files require it; otherwise chosen by the values
  std::optional<formats::CodeMatrix> quantized;  ///< set by the pass that quantizes

  /// Reads [rows][cols] from the checkpoint; null: they are in `values`, or there are none. Used for experts, which do
  /// not all fit into memory in F32, and for embeddings, which are as large as everything else.
  std::function<std::vector<float>()> load{};
  using Change = std::function<void(float* values)>;
  std::vector<Change> changes{};  ///< by passes, applied in order to loaded values

  /// The 16-bit type of scales and outlier columns.
  DType half_type() const;

  /// Returns false in a plan.
  bool has_values() const { return !values.empty() || load != nullptr; }

  /// Changes the values, now or whenever they are loaded: `change` must own everything it refers to.
  void change(Change change);

  /// Returns the loaded values after the passes so far.
  std::vector<float> loaded() const;

  /// Moves the values out.
  std::vector<float> take_values() { return load == nullptr ? std::move(values) : loaded(); }
};

/// The values of a matrix after the passes so far, in memory during the lifetime of this object.
class LinearValues {
 public:
  explicit LinearValues(const WorkingLinear& linear);

  std::span<const float> all() const { return all_; }
  const float* data() const { return all_.data(); }

 private:
  std::vector<float> loaded_;
  std::span<const float> all_;
};

struct WorkingNorm {
  model::Role role{};
  std::string name;
  std::vector<float> gain;  ///< multiplies the normalized value; includes the family's offset
  std::vector<float> bias;  ///< or empty
  std::uint64_t bytes_before = 0;
};

/// A role that is one vector: the head's bias, a router's correction.
struct WorkingVector {
  model::Role role{};
  std::string name;  ///< of the tensor
  std::vector<float> values;
  std::uint64_t bytes_before = 0;
  bool is_written = true;  ///< false in later layers that share it
};

/// Returns whether a role is a matrix of a routed expert.
bool is_routed_expert(model::Role role);

/// Returns whether a role is a table of vectors that begin the residual stream.
bool is_embedding(model::Role role);

/// Returns whether a role is a matrix with a row for each token of the vocabulary: the embedding or the head.
bool is_vocabulary(model::Role role);

/// Returns the first rows of the ranges into which a vocabulary's matrix may be split, and the number of its rows in
/// the end. A range is as large as all before it: vocabularies begin with their frequent tokens, more or less.
std::vector<std::size_t> vocabulary_ranges(std::size_t rows);

/// Returns whether a matrix's outputs are added to the residual stream.
bool writes_stream(model::Role role);

/// Returns whether a role is the last linear of an MLP or of an expert.
bool is_down(model::Role role);

/// An input that several linears share. Indices are those of the block's lists.
struct WorkingInput {
  std::vector<std::size_t> readers;
  std::optional<std::size_t> norm;                  ///< the norm that writes it, if its output has no other readers
  std::optional<std::size_t> gated_norm{};          ///< the norm of each of its heads, before a gate
  std::optional<LinearInputStatistics> statistics;  ///< of the input after the passes so far
  std::shared_ptr<const Hessian> moments{};         ///< of the input, in pairs of channels; null: not measured
  std::shared_ptr<const InputPeaks> peaks{};        ///< if the input becomes INT8; null: not measured
  std::shared_ptr<const Drift> drift{};             ///< corrected by readers other than experts; null: not measured
  /// Moments from the tokens of each expert that reads the input; null: they share `moments`.
  std::shared_ptr<const ExpertMoments> expert_moments{};
  double routed_share = 1;  ///< the share of the tokens in `moments` that were routed to the reader, an expert
};

/// A transformer block, or the part before the first (embeddings) or after the last one (final norm, head). The block
/// of a draft head has the rest of that head, too.
struct WorkingBlock {
  std::optional<std::size_t> layer;  ///< empty: no transformer block
  std::vector<WorkingNorm> norms;
  std::vector<WorkingLinear> linears;
  std::vector<WorkingVector> vectors;
  std::vector<WorkingInput> inputs;
  std::vector<std::uint64_t> expert_tokens;  ///< that each expert got, where they were counted
  ComputeOptions compute{};                  ///< how its floats are multiplied, the source's

  ModuleId id_of(const WorkingLinear& linear) const {
    return {linear.part.role, layer.value_or(0), linear.part.expert};
  }

  /// Returns the linear of a role; null if the block has none.
  WorkingLinear* find(model::Role role, std::size_t expert = 0);

  /// Returns the linears of a role: one, or those of all experts or ranges of rows.
  std::vector<WorkingLinear*> find_all(model::Role role);

  /// Returns the input of the head; null if the block has neither a head nor an embedding that is one.
  WorkingInput* head_input();

  /// Frees the moments and the drift of inputs, which are not needed after rounding.
  void forget_moments();

  /// Returns the statistics of the input of one of the block's linears, null if there are none.
  ChannelStatistics* input_statistics(const WorkingLinear& reader);
};

/// Loads a conversion's blocks. Without `values` no tensors are read: matrices have no values, norms are ones, biases
/// and vectors zeros, and so are missing statistics. Passes run on such blocks, too, which gives the output's sizes
/// before any work is done.
class WorkingBlockLoader {
 public:
  struct Options {
    bool untie_head = false;        ///< gives a model whose head is its embedding a separate head
    bool split_vocabulary = false;  ///< embedding and head become several matrices: vocabulary_ranges()
  };

  /// `statistics` may be null. Throws Error if the statistics belong to another model.
  WorkingBlockLoader(const model::ModelSource& source, const Statistics* statistics, const Options& options);

  /// Returns the number of parts. 0: the embeddings; 1 .. layers: the blocks; layers + 1: final norm and head.
  std::size_t count() const { return source_.spec().layers.size() + 2; }
  WorkingBlock load(std::size_t index, bool values) const;

 private:
  WorkingBlock load_front(bool values) const;
  WorkingBlock load_back(bool values) const;
  void add_classifier(WorkingBlock& block, bool values) const;
  WorkingBlock load_block(std::size_t layer, bool values) const;
  WorkingLinear load_linear(model::Part part, std::size_t layer, bool values) const;
  /// Adds the embedding or the head, as one linear or several. Returns their indices.
  std::vector<std::size_t> add_vocabulary(WorkingBlock& block, model::Role role, bool values) const;
  void add_norm(WorkingBlock& block, model::Role role, std::size_t layer, bool values) const;
  void add_vector(WorkingBlock& block, model::Role role, std::size_t layer, bool values) const;
  void add_input(WorkingBlock& block, std::vector<std::size_t> readers, std::optional<std::size_t> norm,
                 bool values) const;
  LinearInputStatistics statistics_of(const WorkingLinear& reader, std::size_t layer) const;

  const model::ModelSource& source_;
  std::optional<calib::InputStatistics> statistics_;
  bool own_head_;
  bool split_vocabulary_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_BLOCK_WORKING_BLOCK_H_
