#include "quant/quantize/quantize.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "quant/quantize/gptq.h"
#include "quant/rounding/rounding.h"

namespace ballast::quant {

namespace {

using Rounding = Recipe::Rounding;

// Returns the cost of an error in each column of a reader of this input; empty if the input has no statistics.
std::vector<float> column_importance(const ChannelStatistics* input, std::span<const std::uint8_t> quantized_mask) {
  if (input == nullptr || input->mean_square.empty()) return {};
  double sum = 0;
  double count = 0;
  for (std::size_t c = 0; c < quantized_mask.size(); ++c) {
    if (quantized_mask[c] == 0) continue;
    sum += double{input->mean_square[c]};
    count += 1;
  }
  if (!(sum > 0)) return {};
  std::vector<float> importance(input->mean_square);
  for (float& value : importance) value = static_cast<float>(double{value} + kLeastDamping * sum / count);
  return importance;
}

/// Rounds some of the readers of a measured input with GPTQ; `drift` may be null.
void round_readers(WorkingBlock& block, std::span<const std::size_t> readers, const Hessian& moments,
                   const Drift* drift, const std::function<void()>& check_cancelled) {
  // Readers have the same outlier columns, except those with a named format.
  std::optional<InverseCholesky> factor;
  std::vector<std::int32_t> factor_columns;
  for (const std::size_t reader : readers) {
    WorkingLinear& linear = block.linears[reader];
    const std::size_t cell = rounding_cell(linear.format);
    if (!factor || factor->cell != cell || factor_columns != linear.outlier_columns) {
      factor_columns = linear.outlier_columns;
      factor = factorize(moments, factor_columns, damping_for(moments), cell);
    }
    linear.quantized = round_gptq(linear, *factor, drift, check_cancelled);
  }
}

/// Rounds all readers: experts by their own tokens, if these were separated.
void round_readers(WorkingBlock& block, const WorkingInput& input, const std::function<void()>& check_cancelled) {
  std::vector<std::size_t> together;
  std::map<std::size_t, std::vector<std::size_t>> of_expert;
  for (const std::size_t reader : input.readers) {
    const WorkingLinear& linear = block.linears[reader];
    if (!linear.format.quantizes()) continue;
    const bool apart = input.expert_moments != nullptr && is_routed_expert(linear.part.role);
    (apart ? of_expert[linear.part.expert] : together).push_back(reader);
  }
  round_readers(block, together, *input.moments, input.drift.get(), check_cancelled);
  for (const auto& [expert, readers] : of_expert) {
    const Hessian moments = input.expert_moments->of(expert);
    const bool known = std::ranges::any_of(moments.values, [](float value) { return value != 0; });
    if (known) round_readers(block, readers, moments, nullptr, check_cancelled);
  }
}

formats::CodeMatrix rounded(const WorkingLinear& linear, const ChannelStatistics* input, Rounding rounding) {
  RoundingOptions options;
  std::vector<float> importance;
  if (rounding != Rounding::kNearest) {
    importance = column_importance(input, quantized_mask(linear.cols, linear.outlier_columns));
    options = {.method = GridMethod::kSearch, .importance = importance};
  }
  options.half_type = linear.half_type();
  return round_to_nearest(LinearValues(linear).all(), linear.rows, linear.cols, linear.format, linear.outlier_columns,
                          linear.absmax, options);
}

}  // namespace

void quantize_measured(WorkingBlock& block, const std::function<void()>& check_cancelled) {
  for (const WorkingInput& input : block.inputs) {
    if (input.moments != nullptr) round_readers(block, input, check_cancelled);
  }
  block.forget_moments();
}

void quantize(WorkingBlock& block, Rounding rounding, const std::function<void()>& check_cancelled) {
  quantize_measured(block, check_cancelled);
  for (WorkingLinear& linear : block.linears) {
    if (!linear.format.quantizes() || linear.quantized) continue;
    if (check_cancelled) check_cancelled();
    linear.quantized = rounded(linear, block.input_statistics(linear), rounding);
  }
}

std::string quantize_note(Rounding rounding, const std::map<std::string, std::size_t>& matrices) {
  std::string text;
  for (const auto& [format, count] : matrices) {
    text +=
        (text.empty() ? "" : ", ") + std::to_string(count) + (count == 1 ? " matrix to " : " matrices to ") + format;
  }
  switch (rounding) {
    case Rounding::kNearest:
      return "quantize: " + text + ", rounded to nearest";
    case Rounding::kScaleSearch:
      return "quantize: " + text + ", rounded to nearest in the ranges with the least error";
    case Rounding::kGptq:
      return "quantize: " + text + ", rounded one column after the other (GPTQ)";
  }
  return {};
}

}  // namespace ballast::quant
