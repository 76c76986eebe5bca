// The location of a role's matrix in a checkpoint: a tensor of its own, rows of a tensor that several roles share, or
// one of many matrices in a tensor of three dimensions.
#ifndef BALLAST_MODEL_SOURCE_MATRIX_LOCATION_H_
#define BALLAST_MODEL_SOURCE_MATRIX_LOCATION_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ballast/spec.h"
#include "files/checkpoint.h"
#include "formats/codecs/codec.h"
#include "model/arch/architecture.h"

namespace ballast::model {

struct MatrixLocation {
  std::string module;      ///< the tensor's name before ".weight"
  bool bare = false;       ///< the tensor's name is the module's, without ".weight"
  bool foreign = false;    ///< the matrix is several tensors, which the layout's codec reads; always [outputs, inputs]
  bool mxfp4 = false;      ///< the matrix is two tensors, "_blocks" and "_scales", always [outputs, inputs]
  std::size_t slices = 0;  ///< number of matrices in the tensor, one for each expert; 0: the tensor is one matrix
  std::size_t slice = 0;   ///< index of this matrix among them
  std::size_t heads = 0;   ///< if not 0, the matrix is a tensor [heads, outputs, inputs]
  std::size_t stored_rows = 0;    ///< outputs of the whole tensor
  bool transposed = false;        ///< stored [inputs, outputs], each head by itself
  std::vector<std::size_t> rows;  ///< the tensor's row for each row of the role; empty: all, as they are
  std::vector<std::size_t> cols;  ///< the tensor's column for each column of the role; empty: all, as they are

  std::string weight() const;  ///< name of the tensor of weights or blocks
  std::string scales() const;  ///< name of the tensor of MXFP4 scales
  std::string bias() const;
};

/// The names and the layout of a checkpoint's tensors.
struct StorageLayout {
  const Architecture* architecture = nullptr;
  bool gguf = false;
  std::size_t encoder_layers = 0;               ///< EncoderSpec::layers; 0: there is no encoder before a decoder
  const formats::CodecReader* codec = nullptr;  ///< for matrices that another program quantized, or null
  bool written_by_ballast = false;  ///< every role has a tensor of its own, rows in the order of the forward pass
  std::optional<std::size_t> draft_layer = {};  ///< the layer that is a draft head's block; nullopt: none
};

/// Returns the name of a tensor or module of the draft head's block for that of the layer's: they differ where the
/// architecture has a name for that block.
std::string draft_head_name(const StorageLayout& layout, std::string name);

/// Returns the location of a linear or an embedding. When the checkpoint has neither a tensor of its own nor a shared
/// one for it, the result names the one that is missing; when the one that it has is not of `stored_rows`, `rows` stays
/// empty.
MatrixLocation find_matrix(const StorageLayout& layout, const ModelSpec& spec, const files::Checkpoint& checkpoint,
                           Role role, std::size_t layer, std::size_t expert);

/// Returns the full name of a norm's gain ("weight") or bias ("bias"), or of a role that is a vector (no suffix). If it
/// is stored head by head, the name is that of head `head`.
std::string find_vector(const StorageLayout& layout, const files::Checkpoint& checkpoint, Role role,
                        const std::string& suffix, std::size_t layer, std::size_t head = 0);

/// Returns the name that a tensor has in a checkpoint, among those that it may have with other prefixes.
std::string find_tensor(const StorageLayout& layout, const files::Checkpoint& checkpoint, const std::string& name);

/// Returns the shared tensor's row for each row of `role`, and the number of all its rows.
std::vector<std::size_t> rows_in_fused(const FusedTensor& fused, const ModelSpec& spec, std::size_t layer, Role role);
std::size_t fused_rows(const FusedTensor& fused, const ModelSpec& spec, std::size_t layer);

/// Changes the order of the stored rows (empty: all `count`, as they are) and columns to that of the forward pass.
void set_order(const StorageLayout& layout, const LayerSpec& layer, Role role, std::size_t count,
               std::vector<std::size_t>& rows, std::vector<std::size_t>& cols);

/// Returns whether the rows of a role's heads are stored in pairs of those that rotate together.
bool rope_is_interleaved(const StorageLayout& layout, const LayerSpec& layer, Role role);

/// Returns the stored channel for each of the `count` channels of a norm of queries or keys; empty: as they are.
std::vector<std::size_t> head_channel_order(const StorageLayout& layout, const LayerSpec& layer, Role norm,
                                            std::size_t count);

/// Returns the stored row for each of the `rows` rows of a role in files of this layout; empty: as they are.
std::vector<std::size_t> stored_row_order(const StorageLayout& layout, const LayerSpec& layer, Role role,
                                          std::size_t rows);

/// Returns the name of a module's tensor: "layers.0.mlp.down_proj" + ".weight". A module whose name ends in an
/// underscore gets no dot.
std::string tensor_name(const std::string& module, const std::string& suffix);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_SOURCE_MATRIX_LOCATION_H_
