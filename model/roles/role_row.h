// A row of the role table: what is known about all tensors of a role.
#ifndef BALLAST_MODEL_ROLES_ROLE_ROW_H_
#define BALLAST_MODEL_ROLES_ROLE_ROW_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "ballast/spec.h"
#include "ballast/tensor.h"
#include "model/arch/role.h"
#include "model/roles/value_path.h"

namespace ballast::model {

/// A linear or a norm of a block; `expert` is the index of a routed expert.
struct Part {
  Role role{};
  std::size_t expert = 0;

  bool operator==(const Part&) const = default;
};

/// Rows and columns.
using MatrixShape = std::pair<std::size_t, std::size_t>;

struct RoleRow {
  enum class Kind {
    kTable,   ///< rows are looked up
    kLinear,  ///< y = W x + b
    kNorm,
    kVector,  ///< stored under its own full name
  };
  /// Where a role exists. kFront is before the blocks, kBack after them.
  enum class Place { kFront, kBlock, kExpert, kBack };

  Role role{};
  Kind kind = Kind::kLinear;
  Place place = Place::kBlock;

  /// Returns the shape: [outputs, inputs] of a linear, [1, channels] of a norm or a vector. Roles outside of blocks
  /// ignore the layer.
  MatrixShape (*shape)(const ModelSpec&, const LayerSpec&) = nullptr;

  /// Returns whether a layer (or the model) has it; null: always.
  bool (*present)(const ModelSpec&, const LayerSpec&) = nullptr;

  /// Returns another shape in which a checkpoint may store a vector or a norm's gain; null: none.
  Shape (*stored_shape)(const ModelSpec&, const LayerSpec&) = nullptr;

  /// The flag that gives a linear a bias (the head's is the vector kHeadBias); null for roles that never or always have
  /// one.
  bool BiasSpec::* bias_flag = nullptr;
  bool always_has_bias = false;

  /// Returns the properties of a norm that differs from ModelSpec::norm; null if it does not.
  NormSpec (*norm)(const ModelSpec&, const LayerSpec&) = nullptr;

  /// For a linear: the norm whose output it reads, or the block's input in a layer without that norm. Linears with the
  /// same value share their input. Empty: its input is computed inside the block, for this linear only.
  std::optional<Role> reads = {};

  /// For a linear: whether it reads the encoder's output instead. Such linears of a layer share their input.
  bool reads_source = false;

  /// For a linear: the norm of each head's part of its input, before an elementwise factor.
  std::optional<Role> gated_norm = {};

  /// Returns whether there is such a factor; otherwise the linear reads the norm's output. Null: always.
  bool (*gate_follows)(const LayerSpec&) = nullptr;

  /// For a linear: the linear that writes its input and whose rows can be scaled, with the inverse in this linear's
  /// columns, if the activation between them allows that. Empty: none.
  std::optional<Role> producer = {};

  /// For a norm: returns whether only linears read its output, so that they can take its gain. Null: the residual
  /// stream's layout (BlockLayout) decides.
  FoldLegality (*read_by_linears_only)(const ModelSpec&, const LayerSpec&) = nullptr;

  bool needs_float32 = false;     ///< true if it chooses experts or changes a memory; a quantized model keeps it in F32
  bool keeps_16_bits = false;     ///< true for a classifier and for TokenInputSpec's linears: kept in 16-bit floats
  bool shared_by_layers = false;  ///< a vector that all layers read from one tensor
  bool writes_stream = false;     ///< its outputs are added to the residual stream
  bool copied_by_mixer = false;   ///< its mixer multiplies with a copy in its own format
  bool after_mixing = false;      ///< reads only its token's own row, and no other token reads its result in the layer

  /// Returns why its bias is kept, for users; null if the reason is that it is added to the residual stream.
  const char* (*why_bias_stays)(const LayerSpec&) = nullptr;
};

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ROLES_ROLE_ROW_H_
