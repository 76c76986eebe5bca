// What the passes of a conversion work on: a block's weights in F32, and what is known about them.
#ifndef BALLAST_QUANT_WORKING_BLOCK_H_
#define BALLAST_QUANT_WORKING_BLOCK_H_

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
#include "model/block_structure.h"
#include "model/source/model_source.h"
#include "quant/module_id.h"
#include "quant/rounding/drift.h"
#include "quant/rounding/expert_moments.h"
#include "quant/rounding/hessian.h"
#include "quant/rounding/rounded_matrix.h"
#include "quant/search/input_peaks.h"

namespace ballast::quant {

struct WorkingLinear {
  model::Part part;
  std::string name;
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::vector<float> values;  ///< [rows][cols]; empty in a plan, and where they are loaded when somebody looks
  std::vector<float> bias;    ///< [rows], or empty; in a plan zeros
  float absmax = 0;           ///< bound on |values|; 0 in a plan
  std::uint64_t bytes_before = 0;

  WeightFormat format;
  bool free_format = false;  ///< integers that nobody asked for by name: an allocation may choose others
  ActivationType activations = ActivationType::kInt16;  ///< what its input becomes when its weights are codes
  std::vector<std::int32_t> outlier_columns;
  std::optional<DType> scale_type{};       ///< of its scales, where the files decide; else the values do
  std::optional<RoundedMatrix> quantized;  ///< set by the pass that quantizes

  /// Reads [rows][cols] from the checkpoint; null: they are in `values`, or there are none. Of experts, of which a
  /// block has too many for all of them to be in memory in F32, and of embeddings, which are as large as all else.
  std::function<std::vector<float>()> load{};
  using Change = std::function<void(float* values)>;
  std::vector<Change> changes{};  ///< that passes have made to what is loaded, in order

  /// The 16-bit type of scales and outlier columns.
  DType half_type() const;

  /// False in a plan.
  bool has_values() const { return !values.empty() || load != nullptr; }

  /// Changes the values, now or whenever they are loaded: what `change` refers to must be a part of it.
  void change(Change change);

  /// What `load` reads, as the passes so far have left it.
  std::vector<float> loaded() const;

  /// The values, given away.
  std::vector<float> take_values() { return load == nullptr ? std::move(values) : loaded(); }
};

/// The values of a matrix as the passes so far have left them, in memory as long as this is.
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
  std::vector<float> gain;  ///< what the normalized value is multiplied with: the family's offset is in it
  std::vector<float> bias;  ///< or empty
  std::uint64_t bytes_before = 0;
};

/// A role that is one vector: the head's bias, a router's correction.
struct WorkingVector {
  model::Role role{};
  std::string name;  ///< of the tensor
  std::vector<float> values;
  std::uint64_t bytes_before = 0;
};

/// A matrix of one of the experts that a router chooses from.
bool is_routed_expert(model::Role role);

/// A table of vectors that begin the residual stream.
bool is_embedding(model::Role role);

/// A matrix whose outputs are added to the residual stream.
bool writes_stream(model::Role role);

/// The last linear of an MLP, an expert's, too.
bool is_down(model::Role role);

/// One input that linears share. Indices point into the block's lists.
struct WorkingInput {
  std::vector<std::size_t> readers;
  std::optional<std::size_t> norm;                  ///< that writes it, when nobody else reads what it writes
  std::optional<std::size_t> gated_norm{};          ///< of each of its heads, before a gate
  std::optional<LinearInputStatistics> statistics;  ///< of the input as it is after the passes so far
  std::shared_ptr<const Hessian> moments{};         ///< the same, in pairs of channels; null when not measured
  std::shared_ptr<const InputPeaks> peaks{};        ///< where the input becomes INT8; null when not measured
  std::shared_ptr<const Drift> drift{};             ///< which readers but experts correct; null when not measured
  /// Of readers that are experts, by their own tokens; null: they share `moments`.
  std::shared_ptr<const ExpertMoments> expert_moments{};
  double routed_share = 1;  ///< of the tokens in `moments`, those that the reader, an expert, has really got
};

/// A transformer block, or the part before the first (embeddings) or after the last one (final norm, head).
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

  /// The linear of a role, null when the block has none.
  WorkingLinear* find(model::Role role, std::size_t expert = 0);

  /// What the head reads; null where the block has no head, nor an embedding that is one.
  WorkingInput* head_input();

  /// Frees what nobody needs once matrices are rounded: the moments of what they read, and its drift.
  void forget_moments();

  /// Statistics of what one of the block's linears reads, null when there are none.
  ChannelStatistics* input_statistics(const WorkingLinear& reader);
};

/// Where a conversion's blocks come from. Without `values` nothing of the checkpoint is read: matrices have none, norms
/// are ones, biases and vectors zeros, and so are statistics where there are none. Passes run on that too, which tells
/// what the output will look like before any work is done.
class WorkingBlockLoader {
 public:
  /// `statistics` may be null. `untie_head` gives a model whose head is its embedding a head of its own. Throws Error
  /// when the statistics belong to another model.
  WorkingBlockLoader(const model::ModelSource& source, const Statistics* statistics, bool untie_head = false);

  /// 0: the embeddings; 1 .. layers: the blocks; layers + 1: final norm and head.
  std::size_t count() const { return source_.spec().layers.size() + 2; }
  WorkingBlock load(std::size_t index, bool values) const;

 private:
  WorkingBlock load_front(bool values) const;
  WorkingBlock load_back(bool values) const;
  WorkingBlock load_block(std::size_t layer, bool values) const;
  WorkingLinear load_linear(model::Part part, std::size_t layer, bool values) const;
  void add_norm(WorkingBlock& block, model::Role role, std::size_t layer, bool values) const;
  void add_vector(WorkingBlock& block, model::Role role, std::size_t layer, bool values) const;
  void add_input(WorkingBlock& block, std::vector<std::size_t> readers, std::optional<std::size_t> norm,
                 bool values) const;
  LinearInputStatistics statistics_of(const WorkingLinear& reader) const;

  const model::ModelSource& source_;
  const Statistics* statistics_;
  bool own_head_;
};

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_WORKING_BLOCK_H_
