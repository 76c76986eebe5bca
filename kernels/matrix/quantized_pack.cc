// Packs rows of codes into panels, and decodes the rows of panels.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstring>
#include <string>

#include "ballast/error.h"
#include "kernels/matrix/bit_packing.h"
#include "kernels/matrix/float_matrix.h"
#include "kernels/matrix/quantized_storage.h"
#include "kernels/parallel.h"
#include "kernels/vector_width.h"

namespace ballast::kernels {
namespace {

/// Returns the offset of the 4 bytes of one row in piece `index` of a panel's block.
constexpr std::size_t piece(std::size_t index, std::size_t width) {
  return index * width * kQuadColumns;
}

/// Writes the 32 codes of one row of a block, whose bytes in the first vector start at `dst`.
void pack_block(const std::uint8_t* codes, int bits, std::size_t width, std::uint8_t* dst) {
  for (int first = 0; first < bits; first += bit_plane(bits, first).count) {
    const BitPlane plane = bit_plane(bits, first);
    for (int quad = 0; quad < static_cast<int>(kBlockQuads); ++quad) {
      const std::uint8_t* own = codes + static_cast<std::size_t>(quad) * kQuadColumns;
      std::uint8_t* bytes = dst + piece(plane.piece_of(quad), width);
      for (std::size_t i = 0; i < kQuadColumns; ++i) {
        const int earlier = plane.shift(quad) == 0 ? 0 : bytes[i];
        bytes[i] = static_cast<std::uint8_t>(earlier | ((own[i] >> first) & plane.mask()) << plane.shift(quad));
      }
    }
  }
}

/// Reads the 32 codes; the inverse of pack_block.
void unpack_block(const std::uint8_t* src, int bits, std::size_t width, std::uint8_t* codes) {
  std::fill_n(codes, kBlockColumns, std::uint8_t{0});
  for (int first = 0; first < bits; first += bit_plane(bits, first).count) {
    const BitPlane plane = bit_plane(bits, first);
    for (int quad = 0; quad < static_cast<int>(kBlockQuads); ++quad) {
      const std::uint8_t* bytes = src + piece(plane.piece_of(quad), width);
      for (std::size_t i = 0; i < kQuadColumns; ++i) {
        std::uint8_t& code = codes[static_cast<std::size_t>(quad) * kQuadColumns + i];
        code = static_cast<std::uint8_t>(code | ((bytes[i] >> plane.shift(quad)) & plane.mask()) << first);
      }
    }
  }
}

/// Packs one row's codes into a panel.
void pack_row_codes(const QuantizedMatrix::Storage& s, const std::vector<std::uint8_t>& row, std::uint8_t* dst) {
  for (std::size_t group = 0; group < s.layout.groups; group += s.layout.groups_of_block) {
    const std::size_t begin = group * s.layout.group_size;
    const std::size_t end = begin + s.layout.groups_of_block * s.layout.columns_in(group);
    for (std::size_t col = begin; col < end; col += kBlockColumns) {
      std::uint8_t codes[kBlockColumns] = {};
      const std::size_t count = std::min(end - col, kBlockColumns);
      for (std::size_t i = 0; i < count; ++i) codes[i] = row[col + i] ^ s.sign_flip;
      pack_block(codes, s.form.bits, s.width, dst);
      dst += s.block_bytes();
    }
    dst += s.heads_of_block_bytes();
  }
}

float value_of(std::uint16_t bits, bool bf16) {
  float value;
  to_float(&bits, bf16 ? FloatType::kBF16 : FloatType::kF16, 1, &value);
  return value;
}

/// A row's scale or minimum of one group in a panel: 16 bits, or a factor of a shared 16-bit value.
struct GroupValue {
  std::byte* of_group;
  std::uint16_t* shared;  ///< null if the group has its own value

  void write(const std::vector<std::uint16_t>& values, const std::vector<std::int8_t>& factors, std::size_t group,
             std::size_t value) const {
    if (shared == nullptr) {
      std::memcpy(of_group, &values[value], sizeof(std::uint16_t));
    } else {
      std::memcpy(of_group, &factors[group], sizeof(std::int8_t));
      *shared = values[value];
    }
  }

  float read(bool bf16) const {
    if (shared != nullptr) return static_cast<float>(static_cast<std::int8_t>(*of_group)) * value_of(*shared, bf16);
    std::uint16_t bits;
    std::memcpy(&bits, of_group, sizeof(bits));
    return value_of(bits, bf16);
  }
};

/// Returns where a panel has the scale of group `group` of its row `r`.
GroupValue scale_at(const QuantizedMatrix::Storage& s, std::size_t panel, std::size_t group, std::size_t r) {
  std::byte* of_group = s.panel(panel) + s.head_at(group) + r * s.scale_bytes() / s.width;
  if (!s.form.has_factors()) return {of_group, nullptr};
  return {of_group, s.panel_shared_scales(panel) + group / s.form.groups_of_scale * s.shared_scale_values() + r};
}

/// Returns where a panel has the minimum of group `group` of its row `r`.
GroupValue minimum_at(const QuantizedMatrix::Storage& s, std::size_t panel, std::size_t group, std::size_t r) {
  const GroupValue scale = scale_at(s, panel, group, r);
  return {scale.of_group + s.scale_bytes(), scale.shared == nullptr ? nullptr : scale.shared + s.width};
}

void pack_panel(const QuantizedRowReader& read, QuantizedMatrix::Storage& s, std::size_t panel, QuantizedRow& row) {
  const std::size_t rows = std::min(s.width, s.form.rows - panel * s.width);
  // Missing rows are computed too, so their codes must be initialized.
  if (rows < s.width) {
    std::memset(s.panel(panel), 0, s.panel_bytes());
    std::memset(s.panel_tail(panel), 0, s.tail_bytes());
  }
  std::uint8_t* zeros = s.panel_zeros(panel);
  for (std::size_t r = 0; r < rows; ++r) {
    read(panel * s.width + r, row);
    pack_row_codes(s, row.codes, s.panel_codes(panel) + r * kQuadColumns);
    std::uint16_t* outliers = s.panel_outliers(panel) + r;
    for (std::size_t j = 0; j < row.outliers.size(); ++j) outliers[j * s.width] = row.outliers[j];
    for (std::size_t g = 0; g < s.layout.groups; ++g) {  // parts of a group share its scale and zero
      const std::size_t group = g * s.layout.group_size / s.form.group_size;
      const std::size_t value = s.form.has_factors() ? group / s.form.groups_of_scale : group;
      scale_at(s, panel, g, r).write(row.scales, row.factors, group, value);
      if (s.has_minimums()) minimum_at(s, panel, g, r).write(row.minimums, row.minimum_factors, group, value);
      if (zeros != nullptr) zeros[g * s.width + r] = row.zeros[group];
    }
  }
}

CodeLayout form_of(const QuantizedView& view) {
  return {.rows = view.rows,
          .cols = view.cols,
          .bits = view.bits,
          .codebook = view.codebook,
          .group_size = view.group_size,
          .offset = view.zeros.empty() ? CodeLayout::Offset::kMiddle : CodeLayout::Offset::kZeros,
          .groups_of_scale = 0,
          .bf16_scales = view.scale_type == DType::kBF16,
          .bf16_outliers = view.outlier_type == DType::kBF16,
          .outlier_columns = {view.outlier_columns.begin(), view.outlier_columns.end()}};
}

/// Copies row `row` of 16-bit values to dst, which has the size of a row.
void copy_row(std::span<const std::byte> values, std::size_t row, std::vector<std::uint16_t>& dst) {
  const std::size_t bytes = dst.size() * sizeof(std::uint16_t);
  if (bytes > 0) std::memcpy(dst.data(), values.data() + row * bytes, bytes);
}

void read_row(const QuantizedView& view, std::size_t row, QuantizedRow& dst) {
  unpack_codes(view.codes.data() + row * packed_row_bytes(view.cols, view.bits), view.bits, dst.codes);
  if (!view.zeros.empty()) {
    unpack_codes(view.zeros.data() + row * packed_row_bytes(view.groups(), view.bits), view.bits, dst.zeros);
  }
  copy_row(view.scales, row, dst.scales);
  copy_row(view.outlier_weights, row, dst.outliers);
}

}  // namespace

QuantizedRow::QuantizedRow(const CodeLayout& form)
    : codes(form.cols), scales(form.scales()), outliers(form.outlier_columns.size()) {
  const bool has_minimums = form.offset == CodeLayout::Offset::kMinimums;
  if (has_minimums) minimums.resize(form.scales());
  if (form.has_factors()) factors.resize(form.groups());
  if (form.has_factors() && has_minimums) minimum_factors.resize(form.groups());
  if (form.offset == CodeLayout::Offset::kZeros) zeros.resize(form.groups());
}

QuantizedMatrix::QuantizedMatrix(const QuantizedView& view)
    : QuantizedMatrix(form_of(view), [&view](std::size_t row, QuantizedRow& dst) { read_row(view, row, dst); }) {}

QuantizedMatrix::QuantizedMatrix(const CodeLayout& form, const QuantizedRowReader& read)
    : storage_(std::make_unique<Storage>()) {
  assert(form.group_size > 0);
  [[maybe_unused]] const bool uniform = form.codebook == CodebookId::kUniform;
  assert(uniform ? form.bits >= 4 && form.bits <= 8 && form.bits != 7 : form.bits == codebook(form.codebook).bits);
  assert(uniform || form.offset == CodeLayout::Offset::kMiddle);
  Storage& s = *storage_;
  s.form = form;
  s.layout = GroupLayout(form.cols, form.group_size);
  assert(s.layout.groups_of_block == 1 || (form.bits != 5 && uniform && form.offset != CodeLayout::Offset::kZeros));
  assert(!form.has_factors() || form.offset != CodeLayout::Offset::kZeros);
  assert((!form.has_factors() && !s.has_minimums()) || s.layout.group_blocks == 1);
  assert(!form.has_factors() || std::has_single_bit(form.groups_of_scale));
  assert(form.bits < 8 || !s.has_minimums());
  assert(form.column_order.empty() || (form.column_order.size() == form.cols && form.outlier_columns.empty()));
  if (s.layout.group_size > kLargestGroup) {
    throw Error("quantized matrix", "groups of " + std::to_string(form.group_size) + " columns overflow 32-bit sums, " +
                                        "convert with groups of a multiple of " +
                                        std::to_string(GroupLayout::kWidestPart));
  }
  s.width = 2 * vector_lanes();
  s.panels = (form.rows + s.width - 1) / s.width;
  s.sign_flip = form.bits == 8 && !multiplies_unsigned_codes() ? 128 : 0;
  s.shared_shift = form.has_factors() ? std::countr_zero(form.groups_of_scale) : 0;
  s.memory = allocate_weights(s.bytes());

  const std::size_t threads = threads_for(form.rows * form.cols);
  std::vector<QuantizedRow> scratch(threads, QuantizedRow(form));
  // The ranges are those of a product with one token, so that each thread first touches the panels that it will read.
  std::atomic<std::size_t> next{0};
  TaskFailure failure;
  parallel_ranges(s.panels, threads, [&](std::size_t begin, std::size_t end) {
    QuantizedRow& own = scratch[next.fetch_add(1, std::memory_order_relaxed)];
    failure.keep(begin, [&] {
      for (std::size_t panel = begin; panel < end; ++panel) pack_panel(read, s, panel, own);
    });
  });
  failure.rethrow();
}

QuantizedMatrix::QuantizedMatrix(std::vector<QuantizedMatrix> ranges) : ranges_(std::move(ranges)) {
  assert(!ranges_.empty());
  assert(std::ranges::all_of(ranges_, [&](const QuantizedMatrix& range) {
    const auto form = [](const QuantizedMatrix& matrix) {
      return matrix.activation_quantization(ActivationType::kInt8, true);
    };
    return range.ranges_.empty() && form(range) == form(ranges_.front());
  }));
}

QuantizedMatrix::~QuantizedMatrix() = default;
QuantizedMatrix::QuantizedMatrix(QuantizedMatrix&&) noexcept = default;
QuantizedMatrix& QuantizedMatrix::operator=(QuantizedMatrix&&) noexcept = default;

std::size_t QuantizedMatrix::rows() const {
  if (ranges_.empty()) return storage_->form.rows;
  std::size_t rows = 0;
  for (const QuantizedMatrix& range : ranges_) rows += range.rows();
  return rows;
}

std::size_t QuantizedMatrix::cols() const {
  return ranges_.empty() ? storage_->layout.cols : ranges_.front().cols();
}

std::size_t QuantizedMatrix::bytes() const {
  if (ranges_.empty()) return storage_->bytes();
  std::size_t bytes = 0;
  for (const QuantizedMatrix& range : ranges_) bytes += range.bytes();
  return bytes;
}

ActivationQuantization QuantizedMatrix::activation_quantization(ActivationType type, bool scale_per_group) const {
  if (!ranges_.empty()) return ranges_.front().activation_quantization(type, scale_per_group);
  return {.cols = cols(),
          .group_size = storage_->form.group_size,
          .type = type,
          .scale_per_group = scale_per_group,
          .outlier_columns = storage_->form.outlier_columns,
          .column_order = storage_->form.column_order};
}

void QuantizedMatrix::decode_row(std::size_t row, float* dst) const {
  for (const QuantizedMatrix& range : ranges_) {
    if (row < range.rows()) return range.decode_row(row, dst);
    row -= range.rows();
  }
  const Storage& s = *storage_;
  assert(row < s.form.rows);
  const std::size_t panel = row / s.width;
  const std::size_t r = row % s.width;
  const std::uint8_t* codes = s.panel_codes(panel) + r * kQuadColumns;
  const std::span<const std::int8_t> values =
      s.form.codebook == CodebookId::kUniform ? std::span<const std::int8_t>() : codebook(s.form.codebook).values;
  std::uint8_t block[kBlockColumns];
  for (std::size_t group = 0; group < s.layout.groups; ++group) {
    const float scale = scale_at(s, panel, group, r).read(s.form.bf16_scales);
    const float minimum = s.has_minimums() ? minimum_at(s, panel, group, r).read(s.form.bf16_scales) : 0.0F;
    const std::uint8_t* zeros = s.panel_zeros(panel);
    const int zero = zeros == nullptr ? s.default_zero() : zeros[group * s.width + r];
    const std::size_t begin = group * s.layout.group_size;
    const std::size_t in_block = group % s.layout.groups_of_block * s.layout.group_size;  // of its first column
    const std::size_t columns = s.layout.columns_in(group);
    for (std::size_t col = 0, taken = 0; col < columns; col += taken) {
      const std::size_t first = (in_block + col) % kBlockColumns;
      taken = std::min(columns - col, kBlockColumns - first);
      if (first == 0) {
        unpack_block(codes, s.form.bits, s.width, block);
        codes += s.block_bytes();
        for (std::uint8_t& code : block) {
          code = static_cast<std::uint8_t>(values.empty() ? code ^ s.sign_flip : values[code] + s.default_zero());
        }
      }
      for (std::size_t i = 0; i < taken; ++i) {
        dst[begin + col + i] = static_cast<float>(block[first + i] - zero) * scale - minimum;
      }
    }
    if ((group + 1) % s.layout.groups_of_block == 0) codes += s.heads_of_block_bytes();
  }
  const std::vector<std::int32_t>& order = s.form.column_order;
  if (!order.empty()) {
    const std::vector<float> stored(dst, dst + order.size());
    for (std::size_t i = 0; i < order.size(); ++i) dst[order[i]] = stored[i];
  }
  for (std::size_t j = 0; j < s.form.outlier_columns.size(); ++j) {
    dst[s.form.outlier_columns[j]] = value_of(s.panel_outliers(panel)[j * s.width + r], s.form.bf16_outliers);
  }
}

}  // namespace ballast::kernels
