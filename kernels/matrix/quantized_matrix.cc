// Products of quantized matrices. quantized_pack.cc builds them.
#include "kernels/matrix/quantized_matrix.h"

#include <cassert>
#include <type_traits>

#include "kernels/matrix/quantized_storage.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"
#include "kernels/target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matrix/quantized_matrix.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/activation-inl.h"
#include "kernels/matrix/amx_products-inl.h"
#include "kernels/matrix/quantized_tile-inl.h"

namespace ballast::kernels {
#ifndef BALLAST_KERNELS_QUANTIZED_MATRIX_ONCE_
#define BALLAST_KERNELS_QUANTIZED_MATRIX_ONCE_

/// The panels of several matrices, counted through; one with a gate's of the same place counts once.
struct OutputPanels {
  /// The first token after those of an output.
  static std::size_t end_of(const QuantizedOutput& output, std::size_t m) {
    return output.first_token + std::min(output.tokens, m - output.first_token);
  }

  std::span<const QuantizedOutput> outputs;
  std::size_t count = 0;
  std::size_t products = 0;     ///< of a weight with a token
  std::size_t most_tokens = 0;  ///< of an output
  bool all_tokens = true;       ///< of every output

  OutputPanels(std::span<const QuantizedOutput> all, std::size_t m) : outputs(all) {
    for (const QuantizedOutput& output : outputs) {
      const QuantizedMatrix::Storage& s = output.matrix->storage();
      const std::size_t tokens = end_of(output, m) - output.first_token;
      count += s.panels;
      products += tokens * s.form.rows * s.layout.cols * (output.gate == nullptr ? 1 : 2);
      most_tokens = std::max(most_tokens, tokens);
      all_tokens = all_tokens && tokens == m;
    }
  }

  /// Of the largest panel that has fewer bits, or any, with a byte for each code.
  std::size_t most_panel_bytes(bool of_any) const {
    std::size_t most = 0;
    const auto count_panel = [&](const QuantizedMatrix* matrix) {
      if (matrix == nullptr || (matrix->storage().form.bits == 8 && !of_any)) return;
      most = std::max(most, matrix->storage().layout.padded_cols() * matrix->storage().width);
    };
    for (const QuantizedOutput& output : outputs) {
      count_panel(output.matrix);
      count_panel(output.gate);
    }
    return most;
  }

  /// Floats for the products of `tokens` tokens with a panel and its gate's, where there are gates.
  std::size_t gated_floats(std::size_t tokens) const {
    std::size_t most = 0;
    for (const QuantizedOutput& output : outputs) {
      if (output.gate != nullptr) most = std::max(most, 2 * tokens * output.matrix->storage().width);
    }
    return most;
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
  std::size_t first;  ///< token, whose values come first in dst
  std::size_t stride;
  bool accumulate;

  HWY_INLINE void operator()(std::size_t token, QuantFloat c0, QuantFloat c1) const {
    const FloatTag df;
    const std::size_t lanes = hn::Lanes(df);
    float* out = dst + (token - first) * stride;
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

// How the next panel is fetched while one is multiplied: for few tokens, which wait for memory, evenly with its blocks;
// for many in bursts with their tiles, outside of the innermost loop (64 tokens with INT4 1.1 times as fast, 512 1.03).
struct FetchWithBlocks {};
struct FetchWithTiles {};

/// Tokens first .. last with a panel that lies as one of kBits bits and whose codes have kCodeBits, in tiles of about
/// the same size: 7 tokens are 4 and 3.
template <class Dots, std::size_t kPlanes, int kBits, int kCodeBits, std::size_t kGroupBlocks, class Fetch>
HWY_NOINLINE void multiply_tokens_of(const QuantizedActivations::Storage& src, std::size_t first, std::size_t last,
                                     const PanelView& panel, NextPanel next, const PanelStore& store) {
  constexpr std::size_t kTokens = HWY_MAX(kTileRowsOfCodes<Dots> / kPlanes, 1);
  std::size_t tiles = (last - first + kTokens - 1) / kTokens;
  constexpr bool kWithBlocks = std::is_same_v<Fetch, FetchWithBlocks>;
  next.spread(kWithBlocks ? tiles * panel.layout->blocks : tiles);
  for (; tiles > 0; --tiles) {
    const std::size_t tokens = (last - first + tiles - 1) / tiles;
    if constexpr (kWithBlocks) {
      multiply_code_tile_of<Dots, kTokens, kPlanes, kBits, kCodeBits, kGroupBlocks>(tokens, src, first, panel, next,
                                                                                    store);
    } else {
      NoNextPanel none;
      next.fetch();
      multiply_code_tile_of<Dots, kTokens, kPlanes, kBits, kCodeBits, kGroupBlocks>(tokens, src, first, panel, none,
                                                                                    store);
    }
    first += tokens;
  }
}

template <class Dots, int kBits, int kCodeBits, std::size_t kGroupBlocks, class Fetch>
void multiply_tokens_of_planes(const QuantizedActivations::Storage& src, std::size_t first, std::size_t last,
                               const PanelView& panel, const NextPanel& next, const PanelStore& store) {
  if (src.planes() == 2) {
    multiply_tokens_of<Dots, 2, kBits, kCodeBits, kGroupBlocks, Fetch>(src, first, last, panel, next, store);
  } else {
    multiply_tokens_of<Dots, 1, kBits, kCodeBits, kGroupBlocks, Fetch>(src, first, last, panel, next, store);
  }
}

template <class Dots, int kBits, int kCodeBits, class Fetch>
void multiply_tokens(const QuantizedActivations::Storage& src, std::size_t first, std::size_t last,
                     const PanelView& panel, const NextPanel& next, const PanelStore& store) {
  constexpr bool kNonlinear = kCodeBits == kNonlinearCodeBits;  // whole blocks with scales alone
  if (src.layout.groups_of_block == 2) {
    if constexpr (kBits != 5 && !kNonlinear) {
      return multiply_tokens_of_planes<Dots, kBits, kCodeBits, kHalfABlock, Fetch>(src, first, last, panel, next,
                                                                                   store);
    }
  }
  if (panel.shared_scales != nullptr || panel.minimums_at != 0) {
    if constexpr (!kNonlinear) {
      return multiply_tokens_of_planes<Dots, kBits, kCodeBits, kBlockOfFactors, Fetch>(src, first, last, panel, next,
                                                                                       store);
    }
  }
  if (src.planes() == 2) {
    return multiply_tokens_of<Dots, 2, kBits, kCodeBits, 0, Fetch>(src, first, last, panel, next, store);
  }
  // Groups of one block are those of 4-bit and of non-linear codes, packed or expanded.
  if constexpr (kBits == 4 || kNonlinear || std::is_same_v<Fetch, FetchWithTiles>) {
    if (src.layout.group_blocks == 1) {
      return multiply_tokens_of<Dots, 1, kBits, kCodeBits, 1, Fetch>(src, first, last, panel, next, store);
    }
  }
  multiply_tokens_of<Dots, 1, kBits, kCodeBits, 0, Fetch>(src, first, last, panel, next, store);
}

/// Calls body.operator()<bits, bits of codes as they are multiplied>() for a matrix of `form`.
template <class Body>
HWY_INLINE void with_codes(const CodeLayout& form, const Body& body) {
  switch (form.bits) {
    case 4:
      return form.nonlinear ? body.template operator()<4, kNonlinearCodeBits>() : body.template operator()<4, 4>();
    case 5:
      return form.nonlinear ? body.template operator()<5, kNonlinearCodeBits>() : body.template operator()<5, 5>();
    case 6:
      return form.nonlinear ? body.template operator()<6, kNonlinearCodeBits>() : body.template operator()<6, 6>();
    case 7:
      return body.template operator()<7, kNonlinearCodeBits>();
    default:
      return body.template operator()<8, 8>();
  }
}

/// Panel `p` with a byte for each code, arranged for Dots: as it is, or expanded into `scratch`.
template <class Dots>
HWY_NOINLINE PanelView byte_panel(const QuantizedMatrix::Storage& s, std::size_t p, std::uint8_t* scratch) {
  PanelView panel = panel_view(s, p);
  if (s.form.bits == 8 && !Dots::kPairsRows) return panel;
  with_codes(s.form, [&]<int kBits, int kCodeBits>() HWY_ATTR {
    if constexpr (kBits < 8 || Dots::kPairsRows) {
      expand_panel<Dots, kBits, kCodeBits>(s.layout, panel.codes, panel.code_gap, panel.zeros, panel.default_zero,
                                           scratch);
    }
  });
  panel.codes = scratch;
  panel.code_gap = 0;
  if (Dots::kWidensSmallCodes && s.form.bits < 8) panel.zeros = nullptr;  // taken off
  return panel;
}

/// Tokens first .. last with what byte_panel made, whose codes have `bits` bits.
template <class Dots>
void multiply_panel(const QuantizedActivations::Storage& src, std::size_t first, std::size_t last, int bits,
                    const PanelView& panel, const NextPanel& next, const PanelStore& store) {
#if BALLAST_AMX_PRODUCTS
  const bool takes_panel = Dots::kUnsignedCodes && src.layout.groups_of_block == 1;
  switch (takes_panel ? amx_unit() : AmxUnit::kNone) {
    case AmxUnit::kProcessor:
      first = multiply_by_amx<AmxTiles>(src, first, last, panel, store);
      break;
    case AmxUnit::kEmulated:
      first = multiply_by_amx<EmulatedAmxTiles>(src, first, last, panel, store);
      break;
    case AmxUnit::kNone:
      break;
  }
  if (first == last) return;
#endif
  if (Dots::kWidensSmallCodes || bits == 8)
    return multiply_tokens<Dots, 8, 8, FetchWithTiles>(src, first, last, panel, next, store);
  if constexpr (!Dots::kWidensSmallCodes) {
    if (bits == 4) return multiply_tokens<Dots, 8, 4, FetchWithTiles>(src, first, last, panel, next, store);
    if (bits == kNonlinearCodeBits)
      return multiply_tokens<Dots, 8, kNonlinearCodeBits, FetchWithTiles>(src, first, last, panel, next, store);
    multiply_tokens<Dots, 8, 6, FetchWithTiles>(src, first, last, panel, next, store);
  }
}

/// What to fetch beside another panel: panel `index`, if there is one.
HWY_INLINE NextPanel next_panel(const QuantizedMatrix::Storage& s, std::size_t index) {
  return index < s.panels ? NextPanel(s.panel(index), s.panel_bytes()) : NextPanel();
}

/// Where a panel's products with tokens from `first` on go: those of an output's matrix, or of its gate.
HWY_INLINE PanelStore store_of(const QuantizedOutput& output, const float* bias, std::size_t index, std::size_t first) {
  const QuantizedMatrix::Storage& s = output.matrix->storage();
  const std::size_t row = index * s.width;
  return {.bias = bias == nullptr ? nullptr : bias + row,
          .rows = HWY_MIN(s.width, s.form.rows - row),
          .dst = output.dst + (first - output.first_token) * output.stride + row,
          .first = first,
          .stride = output.stride,
          .accumulate = output.accumulate};
}

/// dst = activation(gates) * products of `tokens` tokens with a panel. gates may be dst.
HWY_INLINE void activate_products(Activation activation, const PanelStore& gates, const PanelStore& products,
                                  std::size_t tokens, const PanelStore& dst) {
  for (std::size_t i = 0; i < tokens; ++i) {
    activate_range(activation, gates.dst + i * gates.stride, products.dst + i * products.stride, dst.rows,
                   dst.dst + i * dst.stride);
  }
}

/// Few tokens with panels as they lie, each read once.
template <class Dots>
class FewTokens {
 public:
  // One row of codes keeps memory busy by itself; more leave it idle while they multiply. (2 cores of Zen 4,
  // Qwen2.5-1.5B and SmolLM2: one token of 16 bits 1.35 times as fast, 8 tokens with INT4 1.2 to 1.4, one token of 8
  // bits 0.94 to 1.)
  FewTokens(const QuantizedActivations::Storage& src, std::size_t first, std::size_t last)
      : src_(src), first_(first), last_(last), fetches_((last - first) * src.planes() > 1) {}

  /// Panels begin .. end of an output.
  void write(const QuantizedOutput& output, std::size_t begin, std::size_t end) const {
    const QuantizedMatrix::Storage& own = output.matrix->storage();
    if (output.gate == nullptr) {
      for (std::size_t p = begin; p < end; ++p) multiply(own, p, end, store_of(output, output.bias, p, first_));
      return;
    }
    // All of the gate's panels first: memory is fastest in order.
    for (std::size_t p = begin; p < end; ++p) {
      multiply(output.gate->storage(), p, end, store_of(output, output.gate_bias, p, first_));
    }
    HWY_ALIGN float products[kFewTokens * 2 * hn::MaxLanes(FloatTag())];
    for (std::size_t p = begin; p < end; ++p) {
      const PanelStore dst = store_of(output, output.bias, p, first_);
      PanelStore store = dst;
      store.dst = products;
      store.stride = own.width;
      multiply(own, p, end, store);
      activate_products(output.activation, dst, store, last_ - first_, dst);
    }
  }

 private:
  void multiply(const QuantizedMatrix::Storage& s, std::size_t index, std::size_t end, const PanelStore& store) const {
    const NextPanel next = fetches_ && index + 1 < end ? next_panel(s, index + 1) : NextPanel();
    const PanelView panel = panel_view(s, index);
    with_codes(s.form, [&]<int kBits, int kCodeBits>() HWY_ATTR {
      multiply_tokens<Dots, kBits, kCodeBits, FetchWithBlocks>(src_, first_, last_, panel, next, store);
    });
  }

  const QuantizedActivations::Storage& src_;
  std::size_t first_;
  std::size_t last_;
  bool fetches_;
};

/// Tokens first .. last with a panel of an output. `scratch` is of panel_floats and gated_floats.
template <class Dots>
void write_panel(const QuantizedActivations::Storage& src, const QuantizedOutput& output, std::size_t index,
                 std::size_t first, std::size_t last, float* scratch, std::size_t panel_floats) {
  const auto multiply = [&](const QuantizedMatrix& matrix, const NextPanel& next, const PanelStore& store) HWY_ATTR {
    const QuantizedMatrix::Storage& s = matrix.storage();
    const PanelView panel = byte_panel<Dots>(s, index, reinterpret_cast<std::uint8_t*>(scratch));
    multiply_panel<Dots>(src, first, last, s.code_bits(), panel, next, store);
  };
  const PanelStore dst = store_of(output, output.bias, index, first);
  if (output.gate == nullptr) return multiply(*output.matrix, next_panel(output.matrix->storage(), index + 1), dst);
  // Both products, and what becomes of them, stay in the cache.
  const std::size_t width = output.matrix->storage().width;
  PanelStore gates = store_of(output, output.gate_bias, index, first);
  gates.dst = scratch + panel_floats;
  PanelStore products = dst;
  products.dst = gates.dst + (last - first) * width;
  gates.stride = products.stride = width;
  multiply(*output.gate, next_panel(output.matrix->storage(), index), gates);
  multiply(*output.matrix, next_panel(output.gate->storage(), index + 1), products);
  activate_products(output.activation, gates, products, last - first, dst);
}

/// Outputs of few tokens each.
template <class Dots>
void multiply_few(const QuantizedActivations::Storage& src, const OutputPanels& panels, std::size_t threads) {
  parallel_ranges(panels.count, threads, [&](std::size_t begin, std::size_t end) HWY_ATTR {
    while (begin < end) {
      std::size_t index = begin;
      const QuantizedOutput& output = panels.find(index);
      const std::size_t count = HWY_MIN(end - begin, output.matrix->storage().panels - index);
      const FewTokens<Dots> tokens(src, output.first_token, OutputPanels::end_of(output, src.m));
      tokens.write(output, index, index + count);
      begin += count;
    }
  });
}

/// Outputs of tokens of their own, some of few, some of many: each panel is a task.
template <class Dots>
void multiply_apart(const QuantizedActivations::Storage& src, const OutputPanels& panels, std::size_t threads) {
  const std::size_t panel_floats = panels.most_panel_bytes(Dots::kPairsRows) / sizeof(float);
  const ThreadScratch scratch(threads, panel_floats + panels.gated_floats(panels.most_tokens));
  parallel_tasks(panels.count, threads, [&](std::size_t index, std::size_t thread) HWY_ATTR {
    const QuantizedOutput& output = panels.find(index);
    const std::size_t first = output.first_token;
    const std::size_t last = OutputPanels::end_of(output, src.m);
    if (last - first <= kFewTokens) {
      FewTokens<typename Dots::Few>(src, first, last).write(output, index, index + 1);
    } else {
      write_panel<Dots>(src, output, index, first, last, scratch.of(thread), panel_floats);
    }
  });
}

template <class Dots>
void multiply_all_by(const QuantizedActivations::Storage& src, const OutputPanels& panels) {
  const std::size_t threads = threads_for(panels.products / 4);
  if (panels.most_tokens <= kFewTokens) return multiply_few<typename Dots::Few>(src, panels, threads);
  if (!panels.all_tokens) return multiply_apart<Dots>(src, panels, threads);
  const TokenPartitions partitions(src.m, threads);
  const std::size_t panel_floats = panels.most_panel_bytes(Dots::kPairsRows) / sizeof(float);
  const ThreadScratch scratch(threads, panel_floats + panels.gated_floats(partitions.largest()));
  parallel_partitions(partitions.count, panels.count, threads,
                      [&](std::size_t partition, std::size_t task, std::size_t thread) HWY_ATTR {
                        std::size_t index = task;
                        const QuantizedOutput& output = panels.find(index);
                        write_panel<Dots>(src, output, index, partitions.begin(partition),
                                          partitions.begin(partition + 1), scratch.of(thread), panel_floats);
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
  [[maybe_unused]] const ActivationFormat& format = src.storage().format;
  for ([[maybe_unused]] const QuantizedOutput& output : outputs) {
    assert(format == output.matrix->activation_format(format.bits, format.scale_per_group));
    assert(output.gate == nullptr || format == output.gate->activation_format(format.bits, format.scale_per_group));
    assert(output.gate == nullptr || (output.gate->rows() == output.matrix->rows() && !output.accumulate));
  }
  if (src.m() != 0) HWY_DYNAMIC_DISPATCH(multiply_all)(src.storage(), OutputPanels(outputs, src.m()));
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
