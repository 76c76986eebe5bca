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

/// A family whose GGUFs have the keys of the Llama line, and what its models are besides: what no key says is always
/// so.
struct GgufLine {
  std::string_view architecture;  ///< of the file; keys begin with it
  Activation activation = Activation::kSilu;
  bool post_norms = false;
  std::optional<ExpertSpec> experts{};  ///< of all layers
  double embedding_scale = 1.0;         ///< nearly: originals may have rounded it
  double attention_scale = 0.0;         ///< 0: one over the root of a head's size

  // What the caller adds keys for.
  double residual_scale = 1.0;
  double logit_scale = 1.0;
  double score_cap = 0.0;
  double logit_cap = 0.0;
  bool windows = false;  ///< which layers have one, and how these rotate
};

/// A family's experts, of the number and the sizes that the model's have; none where it has none.
std::optional<ExpertSpec> gguf_experts(const ModelSpec& spec, const ExpertSpec& usual);

/// The keys of such a GGUF, but for those that the caller adds. Throws Error naming what the file cannot say.
std::vector<files::GgufField> llama_line_to_gguf(const ModelSpec& spec, const GgufLine& line);

/// "llama.attention.sliding_window"
files::GgufField gguf_field(const GgufLine& line, std::string_view name, std::size_t value);
files::GgufField gguf_field(const GgufLine& line, std::string_view name, double value);

/// Throws Error: a GGUF of the family cannot say `what`.
[[noreturn]] void refuse_gguf(const GgufLine& line, const std::string& what);

/// The values of rope_freqs.weight, which stretch each pair's rotation as Llama 3 does; empty where nothing does.
std::vector<float> gguf_rope_factors(const ModelSpec& spec);

}  // namespace ballast::model

#endif  // BALLAST_MODEL_ARCH_GGUF_FIELDS_H_
