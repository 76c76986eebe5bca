#include "ballast/error.h"
#include "model/forward/forward.h"
#include "quant/name_pattern.h"
#include "quant/passes/passes.h"

namespace ballast::quant {

namespace {

using model::Role;

// Where a router follows, an error in the residual stream sends tokens to other experts, which costs more than the
// error itself. All that is not a routed expert has a few percent of such a model's weights (DeepSeek-V3: 2 %) and is
// stored one step finer. On random DeepSeek-V3 models (five seeds), w8a8 so kept the top token of 96 % of the positions
// instead of 90 %.
WeightFormat finer(const WeightFormat& format, float absmax) {
  if (format.kind != WeightFormat::Kind::kInteger) return format;
  if (format.bits < 8) return {.bits = 8, .group_size = 64};
  // Folds may still scale the values: far from the end of F16.
  constexpr float kSafeInF16 = 4096.0F;
  return {.kind = absmax < kSafeInF16 ? WeightFormat::Kind::kF16 : WeightFormat::Kind::kBF16};
}

}  // namespace

FormatChooser::FormatChooser(const Recipe& recipe, const ModelSpec& spec) : recipe_(recipe), spec_(spec) {
  for (const FormatOverride& format_override : recipe.overrides) {
    exceptions_.push_back({.text = format_override.pattern,
                           .pattern = compile_name_pattern(format_override.pattern, "exceptions"),
                           .format = format_override.format});
  }
}

void FormatChooser::choose(WorkingBlock& block, std::size_t index) {
  for (WorkingLinear& linear : block.linears) {
    const WeightFormat* asked = asked_format(linear);
    linear.format = asked != nullptr ? *asked : usual_format(linear);
    const bool wide = recipe_.int16_activations_at_end && reads_last_token_only(linear.part.role, index);
    linear.activations = wide ? Recipe::Activations::kFloat : recipe_.activations;
    linear.free_format = asked == nullptr && linear.format.kind == WeightFormat::Kind::kInteger;
  }
}

bool FormatChooser::reads_last_token_only(Role role, std::size_t index) const {
  const Role head = spec_.tied_embeddings && !recipe_.untie_head ? Role::kEmbedding : Role::kHead;
  if (role == head) return spec_.causal;
  // In the order of a block.
  return model::can_keep_wanted_only(spec_) && index == spec_.layers && role >= Role::kAttentionOutput;
}

void FormatChooser::check_exceptions() const {
  for (const Exception& format_override : exceptions_) {
    if (format_override.matched) continue;
    throw Error("format for '" + format_override.text + "'",
                "no matrix has such a name, or an earlier pattern took them all");
  }
}

const WeightFormat* FormatChooser::asked_format(const WorkingLinear& linear) {
  for (Exception& format_override : exceptions_) {
    if (!std::regex_search(linear.name, format_override.pattern)) continue;
    format_override.matched = true;
    return &format_override.format;
  }
  return nullptr;
}

WeightFormat FormatChooser::usual_format(const WorkingLinear& linear) const {
  const Role role = linear.part.role;
  if (role == Role::kHead) return recipe_.head;
  if (role == Role::kRouter && recipe_.linears.kind == WeightFormat::Kind::kInteger) {
    return {.kind = WeightFormat::Kind::kF32};
  }
  const WeightFormat& format = is_embedding(role) ? recipe_.embedding : recipe_.linears;
  // With a target size, measured costs decide.
  return spec_.experts && recipe_.target_bytes == 0 && !is_routed_expert(role) ? finer(format, linear.absmax) : format;
}

}  // namespace ballast::quant
