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

/// A family whose GGUFs have the keys of the Llama line, with its additional properties. A property that has neither a
/// key nor a tensor always has the same value.
struct GgufLine {
  enum class Head { kEither, kTied, kOwn };

  std::string_view architecture;  ///< in the file; keys begin with it
  Activation activation = Activation::kSilu;
  bool post_norms = false;
  std::optional<ExpertSpec> experts{};  ///< of all layers; without value, the family has no experts
  double embedding_scale = 1.0;  ///< a factor close to it is accepted, unless it is 1: originals may have rounded it
  double attention_scale = 0.0;  ///< 0: one over the root of a head's size
  Head head = Head::kEither;
  bool other_biases = false;      ///< attention's output projection and the MLP may have biases
  bool wide_attention = true;     ///< heads * head size may differ from the size of the residual stream
  bool partial_rotation = false;  ///< only a part of each head's channels may rotate
  bool rope_factors = false;      ///< gguf_rope_tensors() may have Llama 3's factors
  bool long_rope = false;         ///< gguf_rope_tensors() may have LongRoPE's factors

  // Values for which the caller adds keys.
  double residual_scale = 1.0;
  double logit_scale = 1.0;
  double score_cap = 0.0;
  double logit_cap = 0.0;
  bool windows = false;    ///< keys hold which layers have a window, and their rotation
  std::size_t window = 0;  ///< the window of all layers
};

inline constexpr GgufLine kLlamaGguf = {.architecture = "llama", .other_biases = true, .rope_factors = true};

/// Returns a family's experts with the model's number and sizes.
ExpertSpec gguf_experts(const ModelSpec& spec, const ExpertSpec& usual);

/// Returns the keys of such a GGUF, except those that the caller adds. Throws Error naming a feature that the file
/// cannot express.
std::vector<files::GgufField> llama_line_to_gguf(const ModelSpec& spec, const GgufLine& line);

/// Returns a field with the architecture before its name: "llama.attention.sliding_window".
files::GgufField gguf_field(const GgufLine& line, std::string_view name, std::size_t value);
files::GgufField gguf_field(const GgufLine& line, std::string_view name, double value);

/// Throws Error: a GGUF of the family cannot express `what`.
[[noreturn]] void refuse_gguf(const GgufLine& line, const std::string& what);

/// Returns the tensors of factors that stretch the rotation of each pair: Llama 3's, or LongRoPE's for long and for
/// short texts. Empty if the rotation is not stretched by such factors.
struct GgufVector {
  std::string name;
  std::vector<float> values;
};
std::vector<GgufVector> gguf_rope_tensors(const ModelSpec& spec);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_GGUF_FIELDS_H_
