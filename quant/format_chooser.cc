#include "quant/name_pattern.h"
#include "quant/passes.h"

namespace ballast::quant {

FormatChooser::FormatChooser(const Recipe& recipe) : recipe_(recipe) {
  for (const FormatException& exception : recipe.exceptions) {
    exceptions_.emplace_back(compile_name_pattern(exception.pattern, "exceptions"), exception.format);
  }
}

void FormatChooser::choose(WorkingBlock& block) const {
  for (WorkingLinear& linear : block.linears) linear.format = format_for(linear);
}

WeightFormat FormatChooser::format_for(const WorkingLinear& linear) const {
  for (const auto& [pattern, format] : exceptions_) {
    if (std::regex_search(linear.name, pattern)) return format;
  }
  if (linear.role == model::Role::kEmbedding) return recipe_.embedding;
  if (linear.role == model::Role::kHead) return recipe_.head;
  return recipe_.linears;
}

}  // namespace ballast::quant
