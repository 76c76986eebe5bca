#include "quant/search/format_chooser.h"

#include "ballast/error.h"
#include "model/forward/forward.h"
#include "quant/search/name_pattern.h"
#include "quant/search/usual_format.h"

namespace ballast::quant {

using model::Role;

FormatChooser::FormatChooser(const Recipe& recipe, const ModelSpec& spec) : recipe_(recipe), spec_(spec) {
  for (const FormatException& exception : recipe.exceptions) {
    exceptions_.push_back({.asked = exception, .pattern = compile_name_pattern(exception.pattern, "exceptions")});
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
  return model::can_keep_wanted_only(spec_) && index == spec_.layers.size() && model::role_row(role).after_mixing;
}

void FormatChooser::check_exceptions() const {
  for (const Exception& exception : exceptions_) {
    if (exception.matched) continue;
    throw Error("format for '" + exception.asked.pattern + "'",
                "no matrix has such a name, or an earlier pattern took them all");
  }
}

const WeightFormat* FormatChooser::asked_format(const WorkingLinear& linear) {
  for (Exception& exception : exceptions_) {
    if (!std::regex_search(linear.name, exception.pattern)) continue;
    exception.matched = true;
    return &exception.asked.format;
  }
  return nullptr;
}

WeightFormat FormatChooser::usual_format(const WorkingLinear& linear) const {
  return quant::usual_format(recipe_, spec_, linear.part.role, linear.absmax);
}

}  // namespace ballast::quant
