// Products of quantized matrices. quantized_pack.cc builds them.
#include "kernels/matrix/quantized_matrix.h"

#include <algorithm>
#include <cassert>
#include <vector>

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
#include "kernels/matrix/quantized_panel-inl.h"

namespace ballast::kernels {
#ifndef BALLAST_KERNELS_QUANTIZED_MATRIX_ONCE_
#define BALLAST_KERNELS_QUANTIZED_MATRIX_ONCE_

/// The panels of several outputs, numbered from 0. A panel and the gate's panel of the same rows have one number.
struct OutputPanels {
  /// Returns the first token after those of an output.
  static std::size_t end_of(const QuantizedOutput& output) {
    return output.first_token + std::min(output.tokens, output.src->m() - output.first_token);
  }

  std::span<const QuantizedOutput> outputs;
  std::size_t count = 0;
  std::size_t products = 0;     ///< of a weight with a token
  std::size_t most_tokens = 0;  ///< of an output
  bool same_tokens = true;      ///< every output has all tokens of the same activations

  explicit OutputPanels(std::span<const QuantizedOutput> all) : outputs(all) {
    for (const QuantizedOutput& output : outputs) {
      const QuantizedMatrix::Storage& s = output.matrix->storage();
      const std::size_t tokens = end_of(output) - output.first_token;
      count += s.panels;
      products += tokens * s.form.rows * s.layout.cols * (output.gate == nullptr ? 1 : 2);
      most_tokens = std::max(most_tokens, tokens);
      same_tokens = same_tokens && output.src == outputs.front().src && tokens == output.src->m();
    }
  }

  /// Returns the bytes of the largest panel with a byte for each code: of fewer than 8 bits, or of any with of_any.
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

  /// Returns the floats for the products of `tokens` tokens with a panel and its gate's; 0 without gates.
  std::size_t gated_floats(std::size_t tokens) const {
    std::size_t most = 0;
    for (const QuantizedOutput& output : outputs) {
      if (output.gate != nullptr) most = std::max(most, 2 * tokens * output.matrix->storage().width);
    }
    return most;
  }

  /// Returns the output that panel `index` belongs to, and changes `index` to the number within that output.
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

bool unsigned_codes() {
  return with_dots([](auto dots) { return decltype(dots)::kUnsignedCodes; });
}

/// Calls body(PanelCodes()) for a matrix of `form`.
template <class Body>
HWY_INLINE void with_codes(const CodeLayout& form, const Body& body) {
  if (form.codebook != CodebookId::kUniform) return with_codebook_codes(form.codebook, body);
  switch (form.bits) {
    case 4:
      return body(UniformCodes<4>());
    case 5:
      return body(UniformCodes<5>());
    case 6:
      return body(UniformCodes<6>());
    default:
      return body(UniformCodes<8>());
  }
}

/// Returns panel `p` with a byte for each code, arranged for Dots: as it is, or expanded into `scratch`.
template <class Dots>
HWY_NOINLINE PanelView byte_panel(const QuantizedMatrix::Storage& s, std::size_t p, std::uint8_t* scratch) {
  PanelView panel = panel_view(s, p);
  if (s.form.bits == 8 && !Dots::kPairsRows) return panel;
  with_codes(s.form, [&](auto codes) HWY_ATTR {
    using Codes = decltype(codes);
    if constexpr (Codes::kBits < 8 || Dots::kPairsRows) {
      expand_panel<Dots, Codes>(s.layout, panel.codes, panel.code_gap, panel.zeros, panel.default_zero, scratch);
    }
  });
  panel.codes = scratch;
  panel.code_gap = 0;
  if (Dots::kWidensSmallCodes && s.form.bits < 8) panel.zeros = nullptr;  // already subtracted
  return panel;
}

/// Multiplies tokens first .. last with a result of byte_panel, whose codes have `bits` bits.
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
    return multiply_tokens<Dots, PanelCodes<8, 8>, FetchWithTiles>(src, first, last, panel, next, store);
  if constexpr (!Dots::kWidensSmallCodes) {
    if (bits == 4) return multiply_tokens<Dots, PanelCodes<8, 4>, FetchWithTiles>(src, first, last, panel, next, store);
    if (bits == 7) return multiply_tokens<Dots, PanelCodes<8, 7>, FetchWithTiles>(src, first, last, panel, next, store);
    multiply_tokens<Dots, PanelCodes<8, 6>, FetchWithTiles>(src, first, last, panel, next, store);
  }
}

/// Returns what to fetch while another panel is multiplied: panel `index`, if it exists.
HWY_INLINE NextPanel next_panel(const QuantizedMatrix::Storage& s, std::size_t index) {
  return index < s.panels ? NextPanel(s.panel(index), s.panel_bytes()) : NextPanel();
}

/// Returns where the products of a panel with tokens from `first` on are stored, for an output's matrix or its gate.
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

/// Stores dst = activation(gates) * products of `tokens` tokens with a panel. gates may be dst.
HWY_INLINE void activate_products(Activation activation, const PanelStore& gates, const PanelStore& products,
                                  std::size_t tokens, const PanelStore& dst) {
  for (std::size_t i = 0; i < tokens; ++i) {
    activate_range(activation, gates.dst + i * gates.stride, products.dst + i * products.stride, dst.rows,
                   dst.dst + i * dst.stride);
  }
}

/// Multiplies few tokens with packed panels, each of which is read once.
class FewTokens {
 public:
  // The next panel is fetched only for two or more rows of codes: one row keeps memory busy by itself, more leave it
  // idle while they multiply. (2 cores of Zen 4, Qwen2.5-1.5B and SmolLM2: one token of 16 bits 1.35 times as fast, 8
  // tokens with INT4 1.2 to 1.4, one token of 8 bits 0.94 to 1.)
  FewTokens(const QuantizedActivations::Storage& src, std::size_t first, std::size_t last)
      : src_(src), first_(first), last_(last), fetches_((last - first) * src.planes() > 1) {}

  /// Writes panels begin .. end of an output.
  void write(const QuantizedOutput& output, std::size_t begin, std::size_t end) const {
    const QuantizedMatrix::Storage& own = output.matrix->storage();
    if (output.gate == nullptr) {
      for (std::size_t p = begin; p < end; ++p) multiply(own, p, end, store_of(output, output.bias, p, first_));
      return;
    }
    // All of the gate's panels come first, because memory is fastest when read in order.
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
    const PackedPanelProduct product = {src_, first_, last_, panel, next, store};
    if (s.form.codebook != CodebookId::kUniform) {
      multiply_panel_of_codebook(s.form.codebook, product);
    } else if (s.form.bits <= 5) {
      multiply_panel_of_4_or_5_bits(s.form.bits, product);
    } else {
      multiply_panel_of_6_or_8_bits(s.form.bits, product);
    }
  }

  const QuantizedActivations::Storage& src_;
  std::size_t first_;
  std::size_t last_;
  bool fetches_;
};

/// Multiplies tokens first .. last with a panel of an output. `scratch` has panel_floats plus gated_floats floats.
template <class Dots>
void write_panel(const QuantizedOutput& output, std::size_t index, std::size_t first, std::size_t last, float* scratch,
                 std::size_t panel_floats) {
  const auto multiply = [&](const QuantizedMatrix& matrix, const NextPanel& next, const PanelStore& store) HWY_ATTR {
    const QuantizedMatrix::Storage& s = matrix.storage();
    const PanelView panel = byte_panel<Dots>(s, index, reinterpret_cast<std::uint8_t*>(scratch));
    multiply_panel<Dots>(output.src->storage(), first, last, s.code_bits(), panel, next, store);
  };
  const PanelStore dst = store_of(output, output.bias, index, first);
  if (output.gate == nullptr) return multiply(*output.matrix, next_panel(output.matrix->storage(), index + 1), dst);
  // The products of both matrices, and the activated product, stay in the cache.
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

/// Multiplies outputs of few tokens each.
void multiply_few(const OutputPanels& panels, std::size_t threads) {
  parallel_ranges(panels.count, threads, [&](std::size_t begin, std::size_t end) HWY_ATTR {
    while (begin < end) {
      std::size_t index = begin;
      const QuantizedOutput& output = panels.find(index);
      const std::size_t count = HWY_MIN(end - begin, output.matrix->storage().panels - index);
      const FewTokens tokens(output.src->storage(), output.first_token, OutputPanels::end_of(output));
      tokens.write(output, index, index + count);
      begin += count;
    }
  });
}

/// Multiplies outputs that each have their own tokens, some few and some many. Each panel is a task.
template <class Dots>
void multiply_ragged(const OutputPanels& panels, std::size_t threads) {
  const std::size_t panel_floats = panels.most_panel_bytes(Dots::kPairsRows) / sizeof(float);
  const ThreadScratch scratch(threads, panel_floats + panels.gated_floats(panels.most_tokens));
  parallel_tasks(panels.count, threads, [&](std::size_t index, std::size_t thread) HWY_ATTR {
    const QuantizedOutput& output = panels.find(index);
    const std::size_t first = output.first_token;
    const std::size_t last = OutputPanels::end_of(output);
    if (last - first <= kFewTokens) {
      FewTokens(output.src->storage(), first, last).write(output, index, index + 1);
    } else {
      write_panel<Dots>(output, index, first, last, scratch.of(thread), panel_floats);
    }
  });
}

template <class Dots>
void multiply_all_by(const OutputPanels& panels) {
  const std::size_t threads = threads_for(panels.products / 4);
  if (panels.most_tokens <= kFewTokens) return multiply_few(panels, threads);
  if (!panels.same_tokens) return multiply_ragged<Dots>(panels, threads);
  const TokenPartitions partitions(panels.most_tokens, threads);
  const std::size_t panel_floats = panels.most_panel_bytes(Dots::kPairsRows) / sizeof(float);
  const ThreadScratch scratch(threads, panel_floats + panels.gated_floats(partitions.largest()));
  parallel_partitions(partitions.count, panels.count, threads,
                      [&](std::size_t partition, std::size_t task, std::size_t thread) HWY_ATTR {
                        std::size_t index = task;
                        const QuantizedOutput& output = panels.find(index);
                        write_panel<Dots>(output, index, partitions.begin(partition), partitions.begin(partition + 1),
                                          scratch.of(thread), panel_floats);
                      });
}

void multiply_all(const OutputPanels& panels) {
  with_dots([&](auto dots) HWY_ATTR { multiply_all_by<decltype(dots)>(panels); });
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

namespace {

/// Returns the outputs with one for each range of a matrix that has ranges.
std::vector<QuantizedOutput> outputs_of_ranges(std::span<const QuantizedOutput> outputs) {
  std::vector<QuantizedOutput> all;
  for (QuantizedOutput output : outputs) {
    const std::span<const QuantizedMatrix> ranges = output.matrix->ranges();
    if (ranges.empty()) all.push_back(output);
    for (const QuantizedMatrix& range : ranges) {
      output.matrix = &range;
      all.push_back(output);
      output.dst += range.rows();
      if (output.bias != nullptr) output.bias += range.rows();
    }
  }
  return all;
}

}  // namespace

void matmul(std::span<const QuantizedOutput> outputs) {
  const auto has_ranges = [](const QuantizedOutput& output) { return !output.matrix->ranges().empty(); };
  if (std::ranges::any_of(outputs, has_ranges)) return matmul(outputs_of_ranges(outputs));
  for ([[maybe_unused]] const QuantizedOutput& output : outputs) {
    [[maybe_unused]] const ActivationQuantization& format = output.src->storage().format;
    assert(format == output.matrix->activation_quantization(format.type, format.scale_per_group));
    assert(output.gate == nullptr ||
           format == output.gate->activation_quantization(format.type, format.scale_per_group));
    assert(output.gate == nullptr || (output.gate->rows() == output.matrix->rows() && !output.accumulate));
  }
  const OutputPanels panels(outputs);
  if (panels.most_tokens != 0) HWY_DYNAMIC_DISPATCH(multiply_all)(panels);
}

}  // namespace ballast::kernels
#endif  // HWY_ONCE
