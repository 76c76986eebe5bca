// From a model's description to a GGUF's metadata.
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

/// A family whose GGUFs have the keys of the Llama line, and what its models are besides: what neither a key nor a
/// tensor says is always so.
struct GgufLine {
  enum class Head { kEither, kTied, kOwn };

  std::string_view architecture;  ///< of the file; keys begin with it
  Activation activation = Activation::kSilu;
  bool post_norms = false;
  std::optional<ExpertSpec> experts{};  ///< of all layers
  double embedding_scale = 1.0;         ///< if it is not 1, nearly: originals may have rounded it
  double attention_scale = 0.0;         ///< 0: one over the root of a head's size
  Head head = Head::kEither;
  bool other_biases = false;      ///< there may be some of what attention returns, and of the MLP
  bool wide_attention = true;     ///< heads together may have another size than the residual stream
  bool partial_rotation = false;  ///< heads may rotate in part
  bool rope_factors = false;      ///< gguf_rope_tensors() may have Llama 3's
  bool long_rope = false;         ///< or LongRoPE's

  // What the caller adds keys for.
  double residual_scale = 1.0;
  double logit_scale = 1.0;
  double score_cap = 0.0;
  double logit_cap = 0.0;
  bool windows = false;    ///< which layers have one, and how these rotate
  std::size_t window = 0;  ///< of all layers
};

inline constexpr GgufLine kLlamaGguf = {.architecture = "llama", .other_biases = true, .rope_factors = true};

/// A family's experts, of the number and the sizes that the model's have.
ExpertSpec gguf_experts(const ModelSpec& spec, const ExpertSpec& usual);

/// The keys of such a GGUF, but for those that the caller adds. Throws Error naming what the file cannot say.
std::vector<files::GgufField> llama_line_to_gguf(const ModelSpec& spec, const GgufLine& line);

/// "llama.attention.sliding_window"
files::GgufField gguf_field(const GgufLine& line, std::string_view name, std::size_t value);
files::GgufField gguf_field(const GgufLine& line, std::string_view name, double value);

/// Throws Error: a GGUF of the family cannot say `what`.
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
