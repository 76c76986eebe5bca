// Arithmetic that layouts share.
#ifndef BALLAST_QUANT_WRITE_HUGGINGFACE_LAYOUT_PARTS_H_
#define BALLAST_QUANT_WRITE_HUGGINGFACE_LAYOUT_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/quantized_tensor.h"
#include "quant/write/converted_module.h"

namespace ballast::quant {

/// Codes are packed to words.
inline constexpr std::size_t kWordBytes = 4;

/// A size as shapes have it.
inline std::int64_t axis(std::size_t size) {
  return static_cast<std::int64_t>(size);
}

std::size_t groups_of(const ModulePlan& module);

/// The format that most weights of integers have; none: there are none.
std::optional<WeightFormat> most_common_format(std::span<const ModulePlan> model);

/// 4 and 8 bits, which servers multiply fast.
std::vector<WeightFormat> symmetric_formats();

/// [rows][cols], a byte each.
std::vector<std::uint8_t> codes_of(const formats::QuantizedTensor& tensor);

/// [rows][groups], a byte each; the middle where there are none.
std::vector<std::uint8_t> zeros_of(const formats::QuantizedTensor& tensor);

/// [rows][groups]
std::vector<float> scales_of(const formats::QuantizedTensor& tensor);

/// [rows][cols] to [cols][rows].
template <typename T>
std::vector<T> transposed(std::span<const T> values, std::size_t rows, std::size_t cols) {
  std::vector<T> moved(values.size());
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < cols; ++c) moved[c * rows + r] = values[r * cols + c];
  }
  return moved;
}

/// The modules of a plan whose matrices are integers, and the names of the others that a program looks for among
/// linears.
std::vector<const ModulePlan*> quantized_modules(std::span<const ModulePlan> model);
std::vector<std::string> plain_linears(std::span<const ModulePlan> model);

template <typename T>
std::vector<std::byte> raw_bytes(const std::vector<T>& values) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

}  // namespace ballast::quant

#endif  // BALLAST_QUANT_WRITE_HUGGINGFACE_LAYOUT_PARTS_H_
