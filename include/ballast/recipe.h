// The recipe of a conversion: which passes run and which format each matrix gets.
#ifndef BALLAST_RECIPE_H_
#define BALLAST_RECIPE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/activation_type.h"
#include "ballast/codebooks.h"
#include "ballast/prefix.h"
#include "ballast/tensor.h"

namespace ballast {

/// How a matrix of weights is stored.
struct WeightFormat {
  enum class Kind { kF32, kF16, kBF16, kInteger, kAffine, kBlocks };
  Kind kind = Kind::kInteger;
  int bits = 8;                                ///< kInteger: 4, 5, 6, 8 or the codebook's; kAffine: also 2 and 3
  CodebookId codebook = CodebookId::kUniform;  ///< kInteger: what the codes stand for
  std::size_t group_size = 0;  ///< 32, 64, 128, or 0 for one scale per output channel (kInteger without a codebook)
  bool symmetric = true;       ///< kInteger: no zero points; always so with a codebook
  int scale_bits = 16;         ///< kInteger: 16, or (with groups) 8: a 16-bit scale per row, 8-bit codes for its groups
  DType block_type = DType::kQ8_0;  ///< kBlocks: of a GGUF, one of writable_block_types()

  /// Whether the weights become codes.
  bool quantizes() const { return is_ballast_format() || kind == Kind::kAffine || kind == Kind::kBlocks; }

  /// Whether they become the codes of ballast's own files.
  bool is_ballast_format() const { return kind == Kind::kInteger; }

  /// Whether they become such codes and stand for evenly spaced values.
  bool is_integer() const { return kind == Kind::kInteger && codebook == CodebookId::kUniform; }

  bool operator==(const WeightFormat&) const = default;
};

/// A GGUF's type of blocks as a format.
inline WeightFormat block_format(DType type) {
  return {.kind = WeightFormat::Kind::kBlocks, .block_type = type};
}

/// Codebook codes: weight = codebook value[code] * group scale. Scales may be negative.
constexpr WeightFormat codebook_format(CodebookId id, std::size_t group_size, int scale_bits) {
  return {.bits = codebook(id).bits, .codebook = id, .group_size = group_size, .scale_bits = scale_bits};
}

/// Returns the formats of all codebooks: the smallest groups first, of these the fewest bits.
std::vector<WeightFormat> codebook_formats();

/// MLX's: codes times a scale plus an offset, which each group has in 16 bits.
inline WeightFormat affine_format(int bits, std::size_t group_size) {
  return {.kind = WeightFormat::Kind::kAffine, .bits = bits, .group_size = group_size};
}

/// Those that matrices can be rounded to, the fewest bits first.
std::vector<WeightFormat> affine_formats();

/// Types of blocks that matrices can be rounded to, the fewest bits first.
std::span<const DType> writable_block_types();

/// "f32", "bf16", "int8-g64", "int4-g32-asym", "int6-channel", "int5-g32-asym-s8", "nl4-g64-s8", "affine4-g64", "q4_k".
std::string format_name(const WeightFormat& format);

/// The inverse of format_name. Throws Error listing what there is.
WeightFormat parse_format(std::string_view name);

/// A format for the tensors whose name matches a regular expression (ECMAScript, searched anywhere in the name).
struct FormatOverride {
  std::string pattern;
  WeightFormat format;
};

struct Recipe {
  /// How a matrix becomes integers: each weight to the nearest of a grid over its group's range; of the grid with the
  /// smallest error in the output; or so that the weights of a row make up for each other's errors (GPTQ).
  enum class Rounding { kNearest, kScaleSearch, kGptq };

  std::string scheme;             ///< the name it started from: "w8a8"
  bool fold_norms = true;         ///< norm gains into the linears that read them
  bool fold_biases = true;        ///< biases of norms and values into those after them; what softmax cancels is dropped
  bool center_norms = true;       ///< LayerNorm to RMSNorm, where that is exact
  bool equalize = false;          ///< V against O and up against down: equal ranges
  bool smooth = false;            ///< what linears read, channel by channel, against their columns
  bool rotate = false;            ///< the residual stream by a Hadamard matrix
  bool rotate_values = false;     ///< values of each head by a Hadamard matrix
  bool untie_head = false;        ///< a head that is the embedding becomes a matrix of its own, so that folds reach it
  double outlier_fraction = 0.0;  ///< of each linear's input channels, kept in 16 bits, or 0; see target_bytes
  WeightFormat linears;
  WeightFormat embedding;                 ///< and the head, when it is the same tensor
  WeightFormat head;                      ///< when it is a tensor of its own
  std::vector<FormatOverride> overrides;  ///< the first that matches wins
  Rounding rounding = Rounding::kNearest;
  /// kGptq: experts that calibration sent few tokens to are weighed with all tokens, too.
  bool shrink_experts = true;
  /// kGptq: weights make up for a part of what the rounding of all matrices before them has done.
  bool correct_drift = true;
  /// Bytes of the tensor files that shall not be exceeded; formats are then chosen matrix by matrix, for all but those
  /// of `overrides`, and so are the columns that keep 16 bits, if outlier_fraction is not 0. 0: formats are those
  /// above.
  std::uint64_t target_bytes = 0;

  /// As target_bytes: as many as the formats above would take.
  static constexpr std::uint64_t kNaturalSize = std::numeric_limits<std::uint64_t>::max();
  /// What the inputs of matrices of codes become: kInt16 ("float" in JSON, and w4a16 and w8a16) or kInt8. Matrices of
  /// floats read floats.
  ActivationType activations = ActivationType::kInt16;
  bool activation_groups = false;  ///< kInt8: a scale per token and group, else per token
  /// kInt8: inputs that only the last token of a prompt has, which thus cost no time, become INT16: those of the head,
  /// and where the layout allows it of all after the last block's attention.
  bool int16_activations_at_end = true;
  /// kInt8: an MLP's input becomes INT16 where a norm of what the MLP returns makes some channel so much larger than
  /// the others that it carries what the rounding of the input did to all of them.
  bool int16_activations_where_amplified = true;
  /// kInt8, with target_bytes: the inputs that INT8 would hurt most become INT16, as long as at most this share of the
  /// multiply-adds that would read INT8 reads them; these take twice the time in a prompt.
  double int16_activation_fraction = 0.0;
  /// kF16 or kBF16 where files keep all but integers in that: scales are rounded to it before weights are, and what it
  /// takes from norms' gains goes into the matrices after them. kF32: types are chosen by what values need.
  DType float_type = DType::kF32;
  CachedPrefix prefix{};  ///< in front of every sequence; a model that has one keeps it
};

/// "nearest", "search", "gptq", and back. Throws Error at `context` listing what there is.
std::string_view rounding_name(Recipe::Rounding rounding);
Recipe::Rounding parse_rounding(std::string_view name, std::string_view context);

/// Names accepted by --scheme, in the order of falling size. Those of integers choose formats at their natural size.
const std::vector<std::string>& scheme_names();

/// The recipe behind a scheme's name. Throws Error listing the schemes.
Recipe recipe_for_scheme(std::string_view scheme);

/// JSON text of a recipe and back. parse_recipe starts from the scheme that the text names, so that a file may give
/// only what differs; one that names formats and no size means these. Unknown keys are an Error naming them. `context`
/// is the file, for messages.
std::string recipe_json(const Recipe& recipe);
Recipe parse_recipe(std::string_view json, std::string_view context);

/// parse_recipe of a file. Throws FileError, too.
Recipe read_recipe(const std::filesystem::path& path);

}  // namespace ballast

#endif  // BALLAST_RECIPE_H_
