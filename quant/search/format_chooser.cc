#include "quant/search/format_chooser.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "ballast/error.h"
#include "model/forward/forward.h"
#include "quant/recipes/name_pattern.h"
#include "quant/search/default_format.h"

namespace ballast::quant {

using model::Role;

namespace {

// Largest over median gain. Gemma 3 270M has 172 in its first block, in the channel of its massive activations, and
// less from block to block; INT16 inputs of the MLPs where it is above 10 take its KL from 0.19 to 0.008, where it
// is above 30 to 0.015.
constexpr float kAmplified = 10.0F;

bool makes_channels_large(const model::Norm& norm) {
  std::vector<float> sizes;
  for (const float gain : norm.gain) sizes.push_back(std::abs(gain));
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::ranges::nth_element(sizes, middle);
  return *std::max_element(middle, sizes.end()) >= kAmplified * *middle;
}

}  // namespace

std::vector<bool> amplified_layers(const Recipe& recipe, const model::ModelSource& source) {
  const ModelSpec& spec = source.spec();
  const bool asked = recipe.activations == ActivationType::kInt8 && recipe.int16_activations_where_amplified;
  if (!asked || !spec.normalizes_returned()) return {};
  std::vector<bool> amplified(spec.layers.size());
  const Role norm = spec.post_norms ? Role::kMlpPostNorm : Role::kMlpNorm;
  for (std::size_t layer = 0; layer < amplified.size(); ++layer) {
    if (!model::has_role(spec, spec.layers[layer], norm)) continue;
    amplified[layer] = makes_channels_large(source.norm(norm, layer));
  }
  return amplified;
}

FormatChooser::FormatChooser(const Recipe& recipe, const ModelSpec& spec, std::vector<bool> amplified)
    : recipe_(recipe), spec_(spec), amplified_(std::move(amplified)) {
  for (const FormatOverride& asked : recipe.overrides) {
    overrides_.push_back({.asked = asked, .pattern = compile_name_pattern(asked.pattern, "exceptions")});
  }
}

void FormatChooser::choose(WorkingBlock& block, std::size_t index) {
  for (WorkingLinear& linear : block.linears) {
    const WeightFormat* asked = asked_format(linear);
    linear.format = asked != nullptr ? *asked : default_format(linear);
    linear.activations = reads_int16(linear.part.role, index) ? ActivationType::kInt16 : recipe_.activations;
    // Other tables than the embedding are not weighed.
    const bool weighed = !is_embedding(linear.part.role) || linear.part.role == Role::kEmbedding;
    linear.free_format = asked == nullptr && linear.format.quantizes() && weighed;
    if (recipe_.float_type != DType::kF32) linear.scale_type = recipe_.float_type;
  }
}

bool FormatChooser::reads_int16(Role role, std::size_t index) const {
  if (recipe_.int16_activations_at_end && reads_last_token_only(role, index)) return true;
  const bool in_block = index > 0 && index <= amplified_.size();
  return in_block && amplified_[index - 1] && model::role_row(role).reads == Role::kMlpNorm;
}

bool FormatChooser::reads_last_token_only(Role role, std::size_t index) const {
  if (spec_.encoder) return false;  // the decoder's texts have no prompt: all of their tokens pass to the end
  const Role head = spec_.tied_embeddings && !recipe_.untie_head ? Role::kEmbedding : Role::kHead;
  if (role == head) return spec_.causal;
  return model::can_keep_wanted_only(spec_) && index == spec_.layers.size() && model::role_row(role).after_mixing;
}

void FormatChooser::check_overrides() const {
  for (const Override& entry : overrides_) {
    if (entry.matched) continue;
    throw Error("format for '" + entry.asked.pattern + "'",
                "no matrix has such a name, or an earlier pattern took them all");
  }
}

bool FormatChooser::names_format_of(const std::string& matrix) const {
  return std::ranges::any_of(overrides_,
                             [&](const Override& entry) { return std::regex_search(matrix, entry.pattern); });
}

const WeightFormat* FormatChooser::asked_format(const WorkingLinear& linear) {
  for (Override& entry : overrides_) {
    if (!std::regex_search(linear.name, entry.pattern)) continue;
    entry.matched = true;
    return &entry.asked.format;
  }
  return nullptr;
}

WeightFormat FormatChooser::default_format(const WorkingLinear& linear) const {
  return quant::default_format(recipe_, spec_, linear.part.role, linear.absmax);
}

}  // namespace ballast::quant
