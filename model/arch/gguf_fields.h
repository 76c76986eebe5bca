// Converts a model's description to a GGUF's metadata.
#ifndef BALLAST_MODEL_ARCH_GGUF_FIELDS_H_
#define BALLAST_MODEL_ARCH_GGUF_FIELDS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/activation.h"
#include "ballast/spec.h"
#include "files/gguf/gguf_writer.h"

namespace ballast::model {

/// A family whose GGUFs have the keys of the Llama line, with its additional properties: properties without a key or a
/// tensor always have the same value.
struct GgufLine {
  enum class Head { kEither, kTied, kOwn };

  std::string_view architecture;  ///< in the file; keys begin with it
  Activation activation = Activation::kSilu;
  bool post_norms = false;
  std::optional<ExpertSpec> experts{};  ///< of all layers
  double embedding_scale = 1.0;         ///< if it is not 1, nearly: originals may have rounded it
  double attention_scale = 0.0;         ///< 0: one over the root of a head's size
  Head head = Head::kEither;
  bool other_biases = false;      ///< attention's output projection and the MLP may have biases
  bool wide_attention = true;     ///< heads together may have another size than the residual stream
  bool partial_rotation = false;  ///< heads may rotate in part
  bool rope_factors = false;      ///< gguf_rope_tensors() may have Llama 3's
  bool long_rope = false;         ///< or LongRoPE's

  // What the caller adds keys for.
  double residual_scale = 1.0;
  double logit_scale = 1.0;
  double score_cap = 0.0;
  double logit_cap = 0.0;
  bool windows = false;    ///< keys hold which layers have one, and their rotation
  std::size_t window = 0;  ///< of all layers
};

inline constexpr GgufLine kLlamaGguf = {.architecture = "llama", .other_biases = true, .rope_factors = true};

/// Returns a family's experts with the model's number and sizes.
ExpertSpec gguf_experts(const ModelSpec& spec, const ExpertSpec& usual);

/// Returns the keys of such a GGUF, except those that the caller adds. Throws Error naming a feature that the file
/// cannot express.
std::vector<files::GgufField> llama_line_to_gguf(const ModelSpec& spec, const GgufLine& line);

/// "llama.attention.sliding_window"
files::GgufField gguf_field(const GgufLine& line, std::string_view name, std::size_t value);
files::GgufField gguf_field(const GgufLine& line, std::string_view name, double value);

/// Throws Error: a GGUF of the family cannot express `what`.
[[noreturn]] void refuse_gguf(const GgufLine& line, const std::string& what);

/// Tensors that stretch each pair's rotation: as Llama 3 does, or LongRoPE in long texts and in short ones. Empty where
/// nothing does.
struct GgufVector {
  std::string name;
  std::vector<float> values;
};
std::vector<GgufVector> gguf_rope_tensors(const ModelSpec& spec);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_GGUF_FIELDS_H_
