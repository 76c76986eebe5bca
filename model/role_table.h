// The roles of a model's tensors, a row each: what it is, which models and layers have it, its shape, its bias, what it
// reads. Structure, loading, folds and planning follow from these rows.
#ifndef BALLAST_MODEL_ROLE_TABLE_H_
#define BALLAST_MODEL_ROLE_TABLE_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "ballast/spec.h"
#include "ballast/tensor.h"
#include "model/arch/role.h"
#include "model/mixer/value_path.h"

namespace ballast::model {

/// Rows and columns.
using MatrixShape = std::pair<std::size_t, std::size_t>;

struct RoleRow {
  enum class Kind {
    kTable,   ///< rows are looked up
    kLinear,  ///< y = W x + b
    kNorm,
    kVector,  ///< stored under a full name of its own
  };
  /// How often there is one. kFront lies before the blocks, kBack after them.
  enum class Place { kFront, kBlock, kExpert, kBack };

  Role role{};
  Kind kind = Kind::kLinear;
  Place place = Place::kBlock;

  /// [outputs, inputs] of a linear; [1, channels] of a norm or a vector. Roles outside of blocks ignore the layer.
  MatrixShape (*shape)(const ModelSpec&, const LayerSpec&) = nullptr;

  /// Whether a layer (or the model) has it; null: always.
  bool (*present)(const ModelSpec&, const LayerSpec&) = nullptr;

  /// How a checkpoint may also store a vector or a norm's gain; null: no other way.
  Shape (*stored_shape)(const ModelSpec&, const LayerSpec&) = nullptr;

  /// The flag that says whether a linear has a bias (the head's is kHeadBias, a vector of its own); null for what has
  /// none or always has one.
  bool BiasSpec::* bias_flag = nullptr;
  bool always_has_bias = false;

  /// What a norm is where it is not ModelSpec::norm, or null.
  NormSpec (*norm)(const ModelSpec&, const LayerSpec&) = nullptr;

  /// Of a linear: the norm whose output it reads, or, in a layer without that norm, the block's input. Linears that
  /// name the same share their input. Empty: what it reads is made inside the block, for it alone.
  std::optional<Role> reads = {};

  /// Of a linear: the norm that each head's part of its input has passed, before something multiplied it by element.
  std::optional<Role> gated_norm = {};

  /// Whether something multiplies in between; where nothing does, that norm is what the linear reads. Null: always.
  bool (*gate_follows)(const LayerSpec&) = nullptr;

  /// Of a linear: the linear that writes its input and whose rows can take factors that its columns take back, where
  /// the activation between them allows that. Empty: none.
  std::optional<Role> producer = {};

  /// Of a norm: whether only linears read its output, so that they can take its gain. Null: the residual stream's
  /// layout (BlockLayout) decides.
  FoldLegality (*read_by_linears_only)(const ModelSpec&, const LayerSpec&) = nullptr;

  bool needs_float32 = false;         ///< it chooses experts or changes a memory; a quantized model keeps it in F32
  bool carries_token_inputs = false;  ///< it reads or writes TokenInputSpec's values; kept in 16-bit floats
  bool writes_stream = false;         ///< its outputs are added to the residual stream
  bool copied_by_mixer = false;       ///< its mixer multiplies with a copy in a form of its own
  bool after_mixing = false;          ///< reads no token but its own, and no token reads it later in the layer

  /// Why its bias stays where it is, for a user; null where it is added to the residual stream.
  const char* (*why_bias_stays)(const LayerSpec&) = nullptr;
};

/// Rows outside of mixers, in the order of the forward pass: of what lies before and after the blocks; of a block,
/// first the norm of what its mixer reads, after which the mixer's rows come, then norm and MLP.
std::span<const RoleRow> outer_rows();
std::span<const RoleRow> block_rows();

/// The row of a role in a layer that may have it. Roles of several mixers have one in each.
const RoleRow& role_row(const LayerSpec& layer, Role role);

/// What all rows of a role have in common: kind, place, bias flag, whether it writes the stream.
const RoleRow& role_row(Role role);

/// Whether a layer has a role; of roles outside of blocks, whether the model has.
bool has_role(const ModelSpec& spec, const LayerSpec& layer, Role role);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ROLE_TABLE_H_
