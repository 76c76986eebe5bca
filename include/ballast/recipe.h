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

/// The fewest bits of ballast's formats with evenly spaced values. Formats of fewer bits have codebooks.
inline constexpr int kFewestIntegerBits = 4;

/// How a matrix of weights is stored.
struct WeightFormat {
  enum class Kind { kF32, kF16, kBF16, kInteger, kAffine, kBlocks };
  Kind kind = Kind::kInteger;
  int bits = 8;                                ///< kInteger: 4, 5, 6, 8 or the codebook's; kAffine: also 2 and 3
  CodebookId codebook = CodebookId::kUniform;  ///< kInteger: the meaning of the codes
  std::size_t group_size = 0;  ///< 32, 64, 128, or 0 for one scale per output channel (kInteger without a codebook)
  bool symmetric = true;       ///< kInteger: no zero points; always so with a codebook
  int scale_bits = 16;         ///< kInteger: 16, or (with groups) 8: a 16-bit scale per row, 8-bit codes for its groups
  DType block_type = DType::kQ8_0;  ///< kBlocks: of a GGUF, one of writable_block_types()

  /// Returns whether the weights become codes.
  bool quantizes() const { return is_ballast_format() || kind == Kind::kAffine || kind == Kind::kBlocks; }

  /// Returns whether they become codes of ballast's own files.
  bool is_ballast_format() const { return kind == Kind::kInteger; }

  /// Returns whether they become such codes with evenly spaced values.
  bool is_integer() const { return kind == Kind::kInteger && codebook == CodebookId::kUniform; }

  /// Returns whether they become such codes, and this is the only format for the number of bits: evenly spaced, or of a
  /// codebook where no evenly spaced format has so few bits. Other ecosystems' files replace it by their own format
  /// with the same bits.
  bool is_format_of_bits() const { return is_integer() || (is_ballast_format() && bits < kFewestIntegerBits); }

  bool operator==(const WeightFormat&) const = default;
};

/// Returns the format of a GGUF's type of blocks.
inline WeightFormat block_format(DType type) {
  return {.kind = WeightFormat::Kind::kBlocks, .block_type = type};
}

/// Returns a codebook's format: weight = codebook value[code] * group scale. Scales may be negative.
constexpr WeightFormat codebook_format(CodebookId id, std::size_t group_size, int scale_bits) {
  return {.bits = codebook(id).bits, .codebook = id, .group_size = group_size, .scale_bits = scale_bits};
}

/// Returns the formats of all codebooks, in ascending order of group size, then of bits.
std::vector<WeightFormat> codebook_formats();

/// Returns MLX's format: codes times a scale plus an offset, in 16 bits for each group.
inline WeightFormat affine_format(int bits, std::size_t group_size) {
  return {.kind = WeightFormat::Kind::kAffine, .bits = bits, .group_size = group_size};
}

/// Returns the formats of this kind that matrices can be rounded to, in ascending order of bits.
std::vector<WeightFormat> affine_formats();

/// Returns the types of blocks that matrices can be rounded to, in ascending order of bits.
std::span<const DType> writable_block_types();

/// Returns the name: "f32", "bf16", "int8-g64", "int4-g32-asym", "int6-channel", "int5-g32-asym-s8", "nl4-g64-s8",
/// "affine4-g64", "q4_k".
std::string format_name(const WeightFormat& format);

/// Returns the format with this name; the inverse of format_name. Throws Error with a list of the formats.
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

  std::string scheme;             ///< the name of the scheme that it is based on: "w8a8"
  bool fold_norms = true;         ///< norm gains into the linears that read them
  bool fold_biases = true;        ///< biases of norms and values into those after them; what softmax cancels is dropped
  bool center_norms = true;       ///< LayerNorm to RMSNorm, where that is exact
  bool equalize = false;          ///< V with O and up with down: equal ranges
  bool smooth = false;            ///< inputs of linears, per channel, with the columns that read them
  bool rotate = false;            ///< the residual stream by a Hadamard matrix
  bool rotate_values = false;     ///< values of each head by a Hadamard matrix
  bool untie_head = false;        ///< a head that is the embedding becomes a matrix of its own, so that folds reach it
  double outlier_fraction = 0.0;  ///< of each linear's input channels, kept in 16 bits, or 0; see target_bytes
  WeightFormat linears;
  WeightFormat embedding;                 ///< also of the head, if it is the same tensor
  WeightFormat head;                      ///< if it is a separate tensor
  std::vector<FormatOverride> overrides;  ///< the first match applies
  Rounding rounding = Rounding::kNearest;
  /// kGptq: experts that few calibration tokens reached are also weighted with all tokens.
  bool shrink_experts = true;
  /// kGptq: weights also compensate for part of the error of all matrices rounded earlier.
  bool correct_drift = true;
  /// The maximum size of the tensor files in bytes. If it is set, the formats of all matrices but those of `overrides`
  /// are chosen matrix by matrix, and so are the columns that stay in 16 bits if outlier_fraction is not 0. 0: the
  /// formats above apply.
  std::uint64_t target_bytes = 0;

  /// As target_bytes: the size that the formats above give.
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
  /// kF16 or kBF16 if files store everything but integers in this type: scales are rounded to it before weights are,
  /// and what the rounding takes from the gains of norms is folded into the matrices after them. kF32: types are chosen
  /// by the magnitude of values.
  DType float_type = DType::kF32;
  CachedPrefix prefix{};  ///< before every sequence; if the model has one, it keeps it
};

/// Converts "nearest", "search", "gptq" to Rounding and back. Throws Error at `context` with a list of the names.
std::string_view rounding_name(Recipe::Rounding rounding);
Recipe::Rounding parse_rounding(std::string_view name, std::string_view context);

/// Returns the names that --scheme accepts, in descending order of size. Integer schemes choose formats at their
/// natural size.
const std::vector<std::string>& scheme_names();

/// Returns the recipe of a scheme. Throws Error with a list of the schemes.
Recipe recipe_for_scheme(std::string_view scheme);

/// Converts a recipe to JSON text and back. parse_recipe starts from the scheme that the text names, so that a file
/// needs only the differences. A file that names formats but no size uses exactly those formats. Throws Error for
/// unknown keys. `context` is the file, for messages.
std::string recipe_json(const Recipe& recipe);
Recipe parse_recipe(std::string_view json, std::string_view context);

/// Calls parse_recipe for a file. Throws FileError, too.
Recipe read_recipe(const std::filesystem::path& path);

}  // namespace ballast

#endif  // BALLAST_RECIPE_H_
