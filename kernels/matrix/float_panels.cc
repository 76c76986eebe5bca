// Packs float matrices into panels, and decodes rows of panels.
#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/float_gemm.h"
#include "kernels/matrix/float_matrix.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matrix/float_panels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/matrix/float_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Packs the panel whose first row is `row`.
void pack_panel(const FloatMatrix& matrix, std::size_t row, std::byte* dst) {
  constexpr std::size_t kColumns = 64;  // decoded at a time, so that they stay in the first-level cache
  HWY_ALIGN float decoded[kColumns * 2 * hn::MaxLanes(FloatTag())];
  const std::size_t bytes = float_type_bytes(matrix.type);
  const std::byte* src = static_cast<const std::byte*>(matrix.data) + row * matrix.cols * bytes;
  const std::size_t rows = HWY_MIN(panel_rows(), matrix.rows - row);
  for (std::size_t c = 0; c < matrix.cols; c += kColumns) {
    const std::size_t count = HWY_MIN(kColumns, matrix.cols - c);
    decode_panel(src + c * bytes, matrix.type, matrix.cols, rows, count, decoded);
    from_float(decoded, count * panel_rows(), matrix.type, dst + c * panel_rows() * bytes);
  }
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(pack_panel);

FloatPanels::FloatPanels(const FloatMatrix& rows) : shape_(rows) {
  assert(!rows.in_panels);
  const std::size_t width = own_tile_width();
  const std::size_t panels = (rows.rows + width - 1) / width;
  const std::size_t panel_bytes = width * rows.cols * float_type_bytes(rows.type);
  memory_ = allocate_weights(panels * panel_bytes);
  // The ranges are those of a product with one token, so that each thread first touches the panels that it will read.
  parallel_ranges(panels, threads_for(rows.rows * rows.cols), [&](std::size_t begin, std::size_t end) {
    for (std::size_t panel = begin; panel < end; ++panel) {
      HWY_DYNAMIC_DISPATCH(pack_panel)(rows, panel * width, memory_.get() + panel * panel_bytes);
    }
  });
}

FloatMatrix FloatPanels::matrix() const {
  FloatMatrix matrix = shape_;
  matrix.data = memory_.get();
  matrix.in_panels = true;
  return matrix;
}

void decode_row(const FloatMatrix& matrix, std::size_t row, float* dst) {
  assert(row < matrix.rows);
  const std::size_t bytes = float_type_bytes(matrix.type);
  const auto* data = static_cast<const std::byte*>(matrix.data);
  if (!matrix.in_panels) return to_float(data + row * matrix.cols * bytes, matrix.type, matrix.cols, dst);
  constexpr std::size_t kColumns = 256;
  std::byte values[kColumns * sizeof(float)];
  const std::size_t width = own_tile_width();
  const std::byte* src = data + (row / width * width * matrix.cols + row % width) * bytes;
  for (std::size_t c = 0; c < matrix.cols; c += kColumns) {
    const std::size_t count = std::min(kColumns, matrix.cols - c);
    for (std::size_t i = 0; i < count; ++i) std::memcpy(values + i * bytes, src + (c + i) * width * bytes, bytes);
    to_float(values, matrix.type, count, dst + c);
  }
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
