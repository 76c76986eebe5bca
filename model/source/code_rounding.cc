#include "model/source/code_rounding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <span>

#include "ballast/text.h"
#include "kernels/matrix/float_matrix.h"
#include "kernels/matrix/quantized_matrix.h"
#include "model/structure/block_structure.h"
#include "model/structure/role_table.h"

namespace ballast::model {

namespace {

constexpr std::size_t kSampledRows = 32;
constexpr std::size_t kCodes = 256;

/// Sums of squared distances between neighbouring codes, indexed by code.
using SquaredSteps = std::array<double, kCodes>;

double squares(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * double{value};
  return sum;
}

void add_steps(const kernels::CodeLayout& layout, const kernels::QuantizedRow& row, SquaredSteps& steps) {
  const kernels::FloatType type = layout.bf16_scales ? kernels::FloatType::kBF16 : kernels::FloatType::kF16;
  for (std::size_t group = 0; group < layout.groups(); ++group) {
    float step = 0;
    kernels::to_float(&row.scales[layout.has_factors() ? group / layout.groups_of_scale : group], type, 1, &step);
    if (layout.has_factors()) step *= static_cast<float>(row.factors[group]);
    const std::size_t end = std::min(layout.cols, (group + 1) * layout.group_size);
    for (std::size_t i = group * layout.group_size; i < end; ++i) steps[row.codes[i]] += double{step} * double{step};
  }
}

/// Returns the estimated sum of squared errors. Values that are spread evenly over the interval that rounds to a code
/// have a mean squared error of a twelfth of the interval's squared width. Codes that never occur do not count as
/// neighbours: the codes of a table are farther apart.
double even_error(const SquaredSteps& steps) {
  std::vector<std::size_t> codes;
  for (std::size_t code = 0; code < kCodes; ++code) {
    if (steps[code] > 0) codes.push_back(code);
  }
  double error = 0;
  for (std::size_t i = 0; i < codes.size() && codes.size() > 1; ++i) {
    const std::size_t before = i == 0 ? 1 : i;
    const std::size_t after = std::min(i + 1, codes.size() - 1);
    const std::size_t gaps = i == 0 || i + 1 == codes.size() ? 1 : 2;
    const auto width = static_cast<double>(codes[after] - codes[before - 1]) / static_cast<double>(gaps);
    error += steps[codes[i]] * width * width / 12;
  }
  return error;
}

/// Returns a matrix of the given rows alone.
kernels::QuantizedMatrix sample(const formats::StoredCodes& codes, const std::vector<std::size_t>& rows) {
  kernels::CodeLayout layout = *codes.layout;
  layout.rows = rows.size();
  return {layout, [&](std::size_t i, kernels::QuantizedRow& dst) { codes.read_row(rows[i], dst); }};
}

void add_rounded(const ModelSource& source, Role role, std::size_t layer, std::size_t expert, RoundedBlocks& found) {
  const std::optional<formats::StoredCodes> codes = source.stored_codes(role, layer, expert);
  if (!codes || codes->exact) return;
  ++found.matrices;
  if (found.type.empty()) found.type = codes->type;
  found.file_bytes += source.stored_bytes(role, layer, expert);
  const kernels::CodeLayout& layout = *codes->layout;
  const std::vector<std::size_t> rows = sampled_rows(layout.rows);
  const kernels::QuantizedMatrix matrix = sample(*codes, rows);
  found.bytes += std::uint64_t{layout.rows} * (layout.cols + sizeof(std::uint16_t) * layout.groups());
  std::vector<float> values(layout.cols), rounded(layout.cols);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    codes->decode_row(rows[i], values.data());
    matrix.decode_row(i, rounded.data());
    for (std::size_t c = 0; c < values.size(); ++c) rounded[c] -= values[c];
    found.error += {squares(rounded), squares(values)};
  }
}

}  // namespace

RelativeError& RelativeError::operator+=(const RelativeError& other) {
  error += other.error;
  energy += other.energy;
  return *this;
}

double RelativeError::ratio() const {
  return energy > 0 ? std::sqrt(error / energy) : 0;
}

std::string percent_text(double ratio) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2g %%", 100 * ratio);
  return text.data();
}

std::vector<std::size_t> sampled_rows(std::size_t rows) {
  const std::size_t count = std::min(rows, kSampledRows);
  std::vector<std::size_t> sampled;
  for (std::size_t i = 0; i < count; ++i) sampled.push_back(i * rows / count);
  return sampled;
}

RelativeError estimated_rounding(const formats::StoredCodes& codes) {
  const std::vector<std::size_t> rows = sampled_rows(codes.layout->rows);
  const kernels::QuantizedMatrix matrix = sample(codes, rows);
  SquaredSteps steps{};
  RelativeError result;
  kernels::QuantizedRow row(*codes.layout);
  std::vector<float> values(codes.layout->cols);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    codes.read_row(rows[i], row);
    add_steps(*codes.layout, row, steps);
    matrix.decode_row(i, values.data());
    result.energy += squares(values);
  }
  result.error = even_error(steps);
  return result;
}

RoundedBlocks rounded_blocks(const ModelSource& source) {
  RoundedBlocks found;
  // In other checkpoints, looking at the codes would read their scales.
  if (source.checkpoint().kind() != files::Checkpoint::Kind::kGguf) return found;
  const ModelSpec& spec = source.spec();
  for (const Role role : outer_roles(spec)) {
    if (!is_norm(role) && !is_vector(role)) add_rounded(source, role, 0, 0, found);
  }
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    for (const Part& part : block_linears(spec, layer)) add_rounded(source, part.role, layer, part.expert, found);
  }
  return found;
}

std::string RoundedBlocks::text() const {
  return std::to_string(matrices) + (matrices == 1 ? " matrix" : " matrices") +
         " in blocks that no kernel multiplies (" + (matrices == 1 ? "" : "the first in ") + type +
         ") become INT8: " + text::format_bytes(bytes) + " in memory instead of " + text::format_bytes(file_bytes) +
         ", weights off by " + percent_text(error.ratio());
}

}  // namespace ballast::model
