// Products of quantized matrices. quantized_pack.cc builds them.
#include "kernels/matrix/quantized_matrix.h"

#include <cassert>
#include <type_traits>

#include "kernels/matrix/quantized_storage.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matrix/quantized_matrix.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/matrix/quantized_tile-inl.h"

namespace ballast::kernels {
#ifndef BALLAST_KERNELS_QUANTIZED_MATRIX_ONCE_
#define BALLAST_KERNELS_QUANTIZED_MATRIX_ONCE_

/// The panels of several matrices, counted through.
struct OutputPanels {
  std::span<const QuantizedOutput> outputs;
  std::size_t count = 0;
  std::size_t weights = 0;
  std::size_t most_expanded_bytes = 0;  ///< of one panel of fewer than 8 bits

  explicit OutputPanels(std::span<const QuantizedOutput> all) : outputs(all) {
    for (const QuantizedOutput& output : outputs) {
      const QuantizedMatrix::Storage& s = output.matrix->storage();
      count += s.panels;
      weights += s.rows * s.layout.cols;
      if (s.bits < 8) most_expanded_bytes = std::max(most_expanded_bytes, s.layout.padded_cols() * s.width);
    }
  }

  /// Finds the output that panel `index` belongs to, and makes it the index within that.
  const QuantizedOutput& find(std::size_t& index) const {
    std::size_t at = 0;
    while (index >= outputs[at].matrix->storage().panels) index -= outputs[at++].matrix->storage().panels;
    return outputs[at];
  }
};

#endif  // BALLAST_KERNELS_QUANTIZED_MATRIX_ONCE_
}  // namespace ballast::kernels

HWY_BEFORE_NAMESPACE();
namespace ballast::kernels::HWY_NAMESPACE {

/// Up to so many, codes are taken apart anew for every tile: each matrix is read once, in order, by threads with equal
/// shares. More are worth a panel with a byte for each code. (2 cores of Zen 4, Qwen2.5-1.5B with INT4 weights, as fast
/// as with such a panel: 2 tokens 1.8 times, 8 1.4, 16 1.2.)
inline constexpr std::size_t kFewTokens = 16;

bool unsigned_codes() {
  return with_dots([](auto dots) { return decltype(dots)::kUnsignedCodes; });
}

/// Adds bias and earlier content, and stores a panel's part of dst.
struct PanelStore {
  const float* bias;  ///< null, or of this panel's rows
  std::size_t rows;
  float* dst;
  std::size_t stride;
  bool accumulate;

  HWY_INLINE void operator()(std::size_t token, QuantFloat c0, QuantFloat c1) const {
    const FloatTag df;
    const std::size_t lanes = hn::Lanes(df);
    float* out = dst + token * stride;
    if (bias != nullptr) {
      c0 = hn::Add(c0, load_or_zero(df, bias, 0, rows));
      c1 = hn::Add(c1, load_or_zero(df, bias, lanes, rows));
    }
    if (accumulate) {
      c0 = hn::Add(c0, load_or_zero(df, out, 0, rows));
      c1 = hn::Add(c1, load_or_zero(df, out, lanes, rows));
    }
    store_pair(df, c0, c1, rows, out);
  }
};

HWY_INLINE PanelStore panel_store(const QuantizedOutput& output, std::size_t panel) {
  const QuantizedMatrix::Storage& s = output.matrix->storage();
  const std::size_t row = panel * s.width;
  return {output.bias == nullptr ? nullptr : output.bias + row, HWY_MIN(s.width, s.rows - row), output.dst + row,
          output.stride, output.accumulate};
}

/// Tokens first .. last with a panel that lies as one of kBits bits and whose codes have kCodeBits, in tiles of about
/// the same size: 7 tokens are 4 and 3.
template <class Dots, std::size_t kPlanes, int kBits, int kCodeBits, std::size_t kGroupBlocks, class Next>
HWY_NOINLINE void multiply_tokens_of(const QuantizedActivations::Storage& src, std::size_t first, std::size_t last,
                                     const PanelView& panel, Next next, const PanelStore& store) {
  constexpr std::size_t kTokens = kTileRowsOfCodes / kPlanes;
  std::size_t tiles = (last - first + kTokens - 1) / kTokens;
  next.fetch_with_block((block_bytes<kBits>() + tiles - 1) / tiles);
  for (; tiles > 0; --tiles) {
    const std::size_t tokens = (last - first + tiles - 1) / tiles;
    multiply_code_tile_of<Dots, kTokens, kPlanes, kBits, kCodeBits, kGroupBlocks>(tokens, src, first, panel, next,
                                                                                  store);
    first += tokens;
  }
}

template <class Dots, int kBits, int kCodeBits, class Next>
void multiply_tokens(const QuantizedActivations::Storage& src, std::size_t first, std::size_t last,
                     const PanelView& panel, const Next& next, const PanelStore& store) {
  if (src.planes() == 2) {
    return multiply_tokens_of<Dots, 2, kBits, kCodeBits, 0>(src, first, last, panel, next, store);
  }
  // Groups of one block are those of 4-bit codes, packed or expanded.
  if constexpr (kBits == 4 || std::is_same_v<Next, NoNextCodes>) {
    if (src.layout.group_blocks == 1) {
      return multiply_tokens_of<Dots, 1, kBits, kCodeBits, 1>(src, first, last, panel, next, store);
    }
  }
  multiply_tokens_of<Dots, 1, kBits, kCodeBits, 0>(src, first, last, panel, next, store);
}

/// Panel `p` with a byte for each code: as it is, or expanded into `scratch`.
template <class Dots>
HWY_NOINLINE PanelView byte_panel(const QuantizedMatrix::Storage& s, std::size_t p, std::uint8_t* scratch) {
  PanelView panel = panel_view(s, p);
  if (s.bits == 8) return panel;
  switch (s.bits) {
    case 4:
      expand_panel<Dots, 4>(s.layout, panel.codes, panel.zeros, scratch);
      break;
    case 5:
      expand_panel<Dots, 5>(s.layout, panel.codes, panel.zeros, scratch);
      break;
    default:
      expand_panel<Dots, 6>(s.layout, panel.codes, panel.zeros, scratch);
      break;
  }
  panel.codes = scratch;
  if (Dots::kWidensSmallCodes) panel.zeros = nullptr;  // taken off
  return panel;
}

/// All tokens with codes as they lie in memory. `more`: the matrix's next panel is this thread's, too.
template <class Dots>
void multiply_panel_as_it_is(const QuantizedActivations::Storage& src, const QuantizedOutput& output, std::size_t index,
                             bool more) {
  const QuantizedMatrix::Storage& s = output.matrix->storage();
  const PanelView panel = panel_view(s, index);
  const PanelStore store = panel_store(output, index);
  // One row of codes keeps memory busy by itself; more leave it idle while they multiply. (2 cores of Zen 4,
  // Qwen2.5-1.5B and SmolLM2: one token of 16 bits 1.35 times as fast, 8 tokens with INT4 1.2 to 1.4, one token of 8
  // bits 0.94 to 1.)
  const bool fetches = more && src.m * src.planes() > 1;
  const NextCodes next = fetches ? NextCodes(s.panel_codes(index + 1), s.panel_bytes()) : NextCodes();
  switch (s.bits) {
    case 4:
      return multiply_tokens<Dots, 4, 4>(src, 0, src.m, panel, next, store);
    case 5:
      return multiply_tokens<Dots, 5, 5>(src, 0, src.m, panel, next, store);
    case 6:
      return multiply_tokens<Dots, 6, 6>(src, 0, src.m, panel, next, store);
    default:
      return multiply_tokens<Dots, 8, 8>(src, 0, src.m, panel, next, store);
  }
}

/// Tokens first .. last with a panel of `bits` bits, of which byte_panel was made.
template <class Dots>
void multiply_panel(const QuantizedActivations::Storage& src, std::size_t first, std::size_t last, int bits,
                    const PanelView& panel, const PanelStore& store) {
  if (Dots::kWidensSmallCodes || bits == 8)
    return multiply_tokens<Dots, 8, 8>(src, first, last, panel, NoNextCodes(), store);
  if constexpr (!Dots::kWidensSmallCodes) {
    if (bits == 4) return multiply_tokens<Dots, 8, 4>(src, first, last, panel, NoNextCodes(), store);
    multiply_tokens<Dots, 8, 6>(src, first, last, panel, NoNextCodes(), store);
  }
}

template <class Dots>
void multiply_all_by(const QuantizedActivations::Storage& src, const OutputPanels& panels) {
  const std::size_t threads = threads_for(src.m * panels.weights / 4);
  if (src.m <= kFewTokens) {
    parallel_ranges(panels.count, threads, [&](std::size_t begin, std::size_t end) HWY_ATTR {
      for (std::size_t p = begin; p < end; ++p) {
        std::size_t index = p;
        const QuantizedOutput& output = panels.find(index);
        const bool more = p + 1 < end && index + 1 < output.matrix->storage().panels;
        multiply_panel_as_it_is<Dots>(src, output, index, more);
      }
    });
    return;
  }
  const TokenPartitions partitions(src.m, threads);
  const ThreadScratch scratch(threads, panels.most_expanded_bytes / sizeof(float));
  parallel_partitions(partitions.count, panels.count, threads,
                      [&](std::size_t partition, std::size_t task, std::size_t thread) HWY_ATTR {
                        std::size_t index = task;
                        const QuantizedOutput& output = panels.find(index);
                        const QuantizedMatrix::Storage& s = output.matrix->storage();
                        const PanelView panel =
                            byte_panel<Dots>(s, index, reinterpret_cast<std::uint8_t*>(scratch.of(thread)));
                        multiply_panel<Dots>(src, partitions.begin(partition), partitions.begin(partition + 1), s.bits,
                                             panel, panel_store(output, index));
                      });
}

void multiply_all(const QuantizedActivations::Storage& src, const OutputPanels& panels) {
  with_dots([&](auto dots) HWY_ATTR { multiply_all_by<decltype(dots)>(src, panels); });
}

}  // namespace ballast::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ballast::kernels {

HWY_EXPORT(unsigned_codes);
HWY_EXPORT(multiply_all);

bool multiplies_unsigned_codes() {
  return HWY_DYNAMIC_DISPATCH(unsigned_codes)();
}

void matmul(const QuantizedActivations& src, std::span<const QuantizedOutput> outputs) {
  for ([[maybe_unused]] const QuantizedOutput& output : outputs) {
    assert(src.storage().format ==
           output.matrix->activation_format(src.storage().format.bits, src.storage().format.scale_per_group));
  }
  if (src.m() != 0) HWY_DYNAMIC_DISPATCH(multiply_all)(src.storage(), OutputPanels(outputs));
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
