// From the layout on disk to panels, and back a row at a time.
#include <algorithm>
#include <atomic>
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

/// Where the 4 bytes of one row lie in piece `index` of a panel's block, a piece being the bytes of all its rows: at 8
/// bits a quad, else a pair of quads, and after the pairs what lies above their low 4 bits.
constexpr std::size_t piece(std::size_t index, std::size_t width) {
  return index * width * kQuadColumns;
}
constexpr std::size_t kFirstHighPiece = kBlockQuads / 2;

/// Writes the 32 codes of one row of a block, whose bytes in the first vector start at `dst`.
void pack_block(const std::uint8_t* codes, int bits, std::size_t width, std::uint8_t* dst) {
  if (bits == 8) {
    for (std::size_t quad = 0; quad < kBlockQuads; ++quad) {
      std::memcpy(dst + piece(quad, width), codes + quad * kQuadColumns, kQuadColumns);
    }
    return;
  }
  for (std::size_t pair = 0; pair < kBlockQuads / 2; ++pair) {
    const std::uint8_t* first = codes + 2 * pair * kQuadColumns;
    for (std::size_t i = 0; i < kQuadColumns; ++i) {
      dst[piece(pair, width) + i] = static_cast<std::uint8_t>((first[i] & 15) | (first[kQuadColumns + i] << 4));
    }
  }
  if (bits == 4) return;
  const std::size_t high = static_cast<std::size_t>(bits) - 4;
  const std::size_t quads_of_byte = 8 / high;
  for (std::size_t quad = 0; quad < kBlockQuads; quad += quads_of_byte) {
    for (std::size_t i = 0; i < kQuadColumns; ++i) {
      unsigned byte = 0;
      for (std::size_t k = 0; k < quads_of_byte; ++k) {
        byte |= static_cast<unsigned>(codes[(quad + k) * kQuadColumns + i] >> 4) << (k * high);
      }
      dst[piece(kFirstHighPiece + quad / quads_of_byte, width) + i] = static_cast<std::uint8_t>(byte);
    }
  }
}

/// The inverse.
void unpack_block(const std::uint8_t* src, int bits, std::size_t width, std::uint8_t* codes) {
  for (std::size_t quad = 0; quad < kBlockQuads; ++quad) {
    for (std::size_t i = 0; i < kQuadColumns; ++i) {
      std::uint8_t& code = codes[quad * kQuadColumns + i];
      if (bits == 8) {
        code = src[piece(quad, width) + i];
        continue;
      }
      code = static_cast<std::uint8_t>((src[piece(quad / 2, width) + i] >> (quad % 2 * 4)) & 15);
      if (bits == 4) continue;
      const std::size_t high = static_cast<std::size_t>(bits) - 4;
      const std::size_t quads_of_byte = 8 / high;
      const unsigned byte = src[piece(kFirstHighPiece + quad / quads_of_byte, width) + i];
      code = static_cast<std::uint8_t>(code | (byte >> (quad % quads_of_byte * high) & ((1U << high) - 1)) << 4);
    }
  }
}

/// Packs one row into its places in a panel; `row` receives its codes on the way.
void pack_row_codes(const QuantizedView& view, const QuantizedMatrix::Storage& s, std::size_t row_index,
                    std::span<std::uint8_t> row, std::uint8_t* dst) {
  unpack_codes(view.codes.data() + row_index * packed_row_bytes(view.cols, view.bits), view.bits, row);
  for (std::size_t group = 0; group < s.layout.groups; ++group) {
    const std::size_t begin = group * s.layout.group_size;
    const std::size_t end = begin + s.layout.columns_in(group);
    for (std::size_t col = begin; col < end; col += kBlockColumns) {
      std::uint8_t codes[kBlockColumns] = {};
      const std::size_t count = std::min(end - col, kBlockColumns);
      for (std::size_t i = 0; i < count; ++i) codes[i] = row[col + i] ^ s.sign_flip;
      pack_block(codes, s.bits, s.width, dst);
      dst += s.block_bytes();
    }
    dst += s.scale_bytes();
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

/// What a thread needs to pack rows.
struct RowScratch {
  std::vector<std::uint8_t> codes, zeros;
};

void pack_panel(const QuantizedView& view, QuantizedMatrix::Storage& s, std::size_t panel, RowScratch& scratch) {
  const std::size_t groups = s.layout.groups;
  const std::size_t outliers = s.outlier_columns.size();
  std::uint8_t* codes = s.panel_codes(panel);
  std::uint16_t* scales = s.panel_scales(panel);
  std::uint8_t* zeros = s.panel_zeros(panel);
  std::uint16_t* weights = s.panel_outliers(panel);
  const std::size_t rows = std::min(s.width, s.rows - panel * s.width);
  // Missing rows are computed too, and must not be garbage.
  if (rows < s.width) {
    std::memset(s.panel(panel), 0, s.panel_bytes());
    if (zeros != nullptr) std::memset(zeros, 0, groups * s.width);
  }
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t row = panel * s.width + r;
    pack_row_codes(view, s, row, scratch.codes, codes + r * kQuadColumns);
    if (outliers != 0) {
      pack_row_values(view.outlier_weights.data() + row * outliers * 2, outliers, s.width, weights + r);
    }
    if (zeros != nullptr) {
      unpack_codes(view.zeros.data() + row * packed_row_bytes(view.groups(), view.bits), view.bits, scratch.zeros);
    }
    const std::byte* row_scales = view.scales.data() + row * view.groups() * 2;
    for (std::size_t g = 0; g < groups; ++g) {  // parts of a group share its scale and zero
      const std::size_t of_view = g * s.layout.group_size / view.group_size;
      std::memcpy(scales + g * s.group_bytes() / 2 + r, row_scales + 2 * of_view, 2);
      if (zeros != nullptr) zeros[g * s.width + r] = scratch.zeros[of_view];
    }
  }
}

}  // namespace

QuantizedMatrix::QuantizedMatrix(const QuantizedView& view) : storage_(std::make_unique<Storage>()) {
  assert(view.bits == 4 || view.bits == 5 || view.bits == 6 || view.bits == 8);
  assert(view.group_size > 0);
  Storage& s = *storage_;
  s.rows = view.rows;
  s.bits = view.bits;
  s.layout = GroupLayout(view.cols, view.group_size);
  s.view_group_size = view.group_size;
  if (s.layout.group_size > kLargestGroup) {
    throw Error("quantized matrix", "groups of " + std::to_string(view.group_size) + " columns overflow 32-bit sums, " +
                                        "convert with groups of a multiple of " +
                                        std::to_string(GroupLayout::kWidestPart));
  }
  s.width = 2 * vector_lanes();
  s.panels = (view.rows + s.width - 1) / s.width;
  s.bf16_scales = view.scale_type == DType::kBF16;
  s.bf16_outliers = view.outlier_type == DType::kBF16;
  s.sign_flip = view.bits == 8 && !multiplies_unsigned_codes() ? 128 : 0;
  s.outlier_columns.assign(view.outlier_columns.begin(), view.outlier_columns.end());
  s.symmetric = view.zeros.empty();
  s.memory = allocate_weights(s.bytes());

  const std::size_t threads = threads_for(view.rows * view.cols);
  std::vector<RowScratch> scratch(threads);
  for (RowScratch& one : scratch) {
    one.codes.resize(view.cols);
    one.zeros.resize(view.groups());
  }
  // The shares of a token's product, when the matrix is multiplied alone: who first touches a panel will read it.
  std::atomic<std::size_t> next{0};
  parallel_ranges(s.panels, threads, [&](std::size_t begin, std::size_t end) {
    RowScratch& own = scratch[next.fetch_add(1, std::memory_order_relaxed)];
    for (std::size_t panel = begin; panel < end; ++panel) pack_panel(view, s, panel, own);
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

std::size_t QuantizedMatrix::bytes() const {
  return storage_->bytes();
}

ActivationFormat QuantizedMatrix::activation_format(int bits, bool scale_per_group) const {
  return {.cols = cols(),
          .group_size = storage_->view_group_size,
          .bits = bits,
          .scale_per_group = scale_per_group,
          .outlier_columns = storage_->outlier_columns};
}

void QuantizedMatrix::decode_row(std::size_t row, float* dst) const {
  const Storage& s = *storage_;
  assert(row < s.rows);
  const std::size_t panel = row / s.width;
  const std::size_t r = row % s.width;
  const std::uint8_t* codes = s.panel_codes(panel) + r * kQuadColumns;
  for (std::size_t group = 0; group < s.layout.groups; ++group) {
    const float scale = value_of(s.panel_scales(panel)[group * s.group_bytes() / 2 + r], s.bf16_scales);
    const int zero = s.symmetric ? s.default_zero() : s.panel_zeros(panel)[group * s.width + r];
    const std::size_t begin = group * s.layout.group_size;
    const std::size_t end = begin + s.layout.columns_in(group);
    for (std::size_t col = begin; col < end; col += kBlockColumns) {
      std::uint8_t block[kBlockColumns];
      unpack_block(codes, s.bits, s.width, block);
      codes += s.block_bytes();
      for (std::size_t i = 0; i < std::min(end - col, kBlockColumns); ++i) {
        dst[col + i] = static_cast<float>((block[i] ^ s.sign_flip) - zero) * scale;
      }
    }
    codes += s.scale_bytes();
  }
  for (std::size_t j = 0; j < s.outlier_columns.size(); ++j) {
    dst[s.outlier_columns[j]] = value_of(s.panel_outliers(panel)[j * s.width + r], s.bf16_outliers);
  }
}

}  // namespace ballast::kernels
