// From the layout on disk to panels, and back a row at a time.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <string>

#include "ballast/error.h"
#include "kernels/float_matrix.h"
#include "kernels/parallel.h"
#include "kernels/quantized_storage.h"
#include "kernels/vector_width.h"

namespace ballast::kernels {
namespace {

std::uint8_t nibble(const std::uint8_t* row, std::size_t index) {
  return static_cast<std::uint8_t>((row[index / 2] >> (index % 2 * 4)) & 15);
}

/// The codes of up to 8 columns, zeros after the last.
void read_codes(const std::uint8_t* row, int bits, std::size_t first, std::size_t count, std::uint8_t* codes) {
  std::memset(codes, 0, GroupLayout::kPairColumns);
  if (bits == 8) {
    std::memcpy(codes, row + first, count);
  } else {
    for (std::size_t i = 0; i < count; ++i) codes[i] = nibble(row, first + i);
  }
}

void pack_row_codes(const QuantizedView& view, const GroupLayout& layout, std::size_t row, std::size_t width,
                    std::uint8_t* panel, std::size_t row_in_panel) {
  const std::uint8_t* src = view.codes.data() + row * packed_row_bytes(view.cols, view.bits);
  const std::size_t vector_bytes = width * 4;
  std::uint8_t* dst = panel + row_in_panel * 4;
  for (std::size_t group = 0; group < layout.groups; ++group) {
    const std::size_t begin = group * layout.group_size;
    const std::size_t end = begin + layout.columns_in(group);
    for (std::size_t col = begin; col < end; col += GroupLayout::kPairColumns) {
      std::uint8_t codes[GroupLayout::kPairColumns];
      read_codes(src, view.bits, col, std::min(end - col, GroupLayout::kPairColumns), codes);
      if (view.bits == 8) {
        std::memcpy(dst, codes, 4);
        std::memcpy(dst + vector_bytes, codes + 4, 4);
        dst += 2 * vector_bytes;
      } else {
        for (std::size_t i = 0; i < 4; ++i) dst[i] = static_cast<std::uint8_t>(codes[i] | (codes[4 + i] << 4));
        dst += vector_bytes;
      }
    }
  }
}

/// Copies one row of 16-bit values to every width-th place.
void pack_row_values(const std::byte* src, std::size_t count, std::size_t width, std::uint16_t* dst) {
  for (std::size_t i = 0; i < count; ++i) std::memcpy(dst + i * width, src + 2 * i, 2);
}

float value_of(std::uint16_t bits, bool bf16) {
  float value;
  to_float(&bits, bf16 ? FloatType::kBF16 : FloatType::kF16, 1, &value);
  return value;
}

}  // namespace

QuantizedMatrix::QuantizedMatrix(const QuantizedView& view) : storage_(std::make_unique<Storage>()) {
  assert(view.bits == 4 || view.bits == 8);
  assert(view.group_size > 0);
  if (view.group_size > kLargestGroup) {
    throw Error("quantized matrix", "groups of " + std::to_string(view.group_size) + " columns overflow 32-bit sums, " +
                                        "convert with groups of at most " + std::to_string(kLargestGroup));
  }
  Storage& s = *storage_;
  s.rows = view.rows;
  s.bits = view.bits;
  s.layout = GroupLayout(view.cols, view.group_size);
  s.width = 2 * vector_lanes();
  s.panels = (view.rows + s.width - 1) / s.width;
  s.bf16_scales = view.scale_type == DType::kBF16;
  s.bf16_outliers = view.outlier_type == DType::kBF16;
  s.outlier_columns.assign(view.outlier_columns.begin(), view.outlier_columns.end());

  const std::size_t groups = s.layout.groups;
  const std::size_t outliers = s.outlier_columns.size();
  s.codes.grow(s.panels * s.panel_bytes());
  s.scales.grow(s.panels * groups * s.width);
  if (!view.zeros.empty()) s.zeros.grow(s.panels * groups * s.width);
  s.outlier_weights.grow(s.panels * outliers * s.width);

  parallel_tasks(s.panels, threads_for(view.rows * view.cols), [&](std::size_t panel, std::size_t) {
    std::uint8_t* codes = s.codes.data() + panel * s.panel_bytes();
    std::uint16_t* scales = s.scales.data() + panel * groups * s.width;
    std::uint8_t* zeros = s.symmetric() ? nullptr : s.zeros.data() + panel * groups * s.width;
    std::uint16_t* weights = s.outlier_weights.data() + panel * outliers * s.width;
    const std::size_t rows = std::min(s.width, s.rows - panel * s.width);
    if (rows < s.width) {  // missing rows are computed too, and must not be garbage
      std::memset(codes, 0, s.panel_bytes());
      std::memset(scales, 0, groups * s.width * sizeof(std::uint16_t));
      if (zeros != nullptr) std::memset(zeros, 0, groups * s.width);
      if (outliers != 0) std::memset(weights, 0, outliers * s.width * sizeof(std::uint16_t));
    }
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t row = panel * s.width + r;
      pack_row_codes(view, s.layout, row, s.width, codes, r);
      pack_row_values(view.scales.data() + row * groups * 2, groups, s.width, scales + r);
      pack_row_values(view.outlier_weights.data() + row * outliers * 2, outliers, s.width, weights + r);
      if (zeros == nullptr) continue;
      const std::uint8_t* zero_row = view.zeros.data() + row * packed_row_bytes(groups, view.bits);
      for (std::size_t g = 0; g < groups; ++g) {
        zeros[g * s.width + r] = view.bits == 8 ? zero_row[g] : nibble(zero_row, g);
      }
    }
  });
}

QuantizedMatrix::~QuantizedMatrix() = default;
QuantizedMatrix::QuantizedMatrix(QuantizedMatrix&&) noexcept = default;
QuantizedMatrix& QuantizedMatrix::operator=(QuantizedMatrix&&) noexcept = default;

std::size_t QuantizedMatrix::rows() const {
  return storage_->rows;
}
std::size_t QuantizedMatrix::cols() const {
  return storage_->layout.cols;
}
std::size_t QuantizedMatrix::group_size() const {
  return storage_->layout.group_size;
}
std::span<const std::int32_t> QuantizedMatrix::outlier_columns() const {
  return storage_->outlier_columns;
}

std::size_t QuantizedMatrix::bytes() const {
  return storage_->codes.bytes() + storage_->scales.bytes() + storage_->zeros.bytes() +
         storage_->outlier_weights.bytes();
}

void QuantizedMatrix::decode_row(std::size_t row, float* dst) const {
  const Storage& s = *storage_;
  assert(row < s.rows);
  const std::size_t panel = row / s.width;
  const std::size_t r = row % s.width;
  for (std::size_t group = 0; group < s.layout.groups; ++group) {
    const std::size_t at = group * s.width + r;
    const float scale = value_of(s.panel_scales(panel)[at], s.bf16_scales);
    const int zero = s.symmetric() ? s.default_zero() : s.panel_zeros(panel)[at];
    const std::size_t begin = group * s.layout.group_size;
    const std::size_t padded_begin = group * s.layout.group_pairs * GroupLayout::kPairColumns;
    for (std::size_t c = 0; c < s.layout.columns_in(group); ++c) {
      dst[begin + c] = static_cast<float>(s.code(panel, r, padded_begin + c) - zero) * scale;
    }
  }
  for (std::size_t j = 0; j < s.outlier_columns.size(); ++j) {
    dst[s.outlier_columns[j]] = value_of(s.panel_outliers(panel)[j * s.width + r], s.bf16_outliers);
  }
}

}  // namespace ballast::kernels
